#pragma once

// The files that the kernel would show for RDMA devices, as far as libibverbs,
// perftest, UCX and pyverbs read them. README.md lists what is left out, and
// why a missing file is better than a wrong one.

#include "verbs/identity/device_identity.h"

// Writes sys/class/... and dev/infiniband below the existing directory `root`.
// 0 or -errno.
int urnic_sysfs_render(const char* root,
                       const struct urnic_device_identity* devices,
                       int num_devices);

// Writes the GID table of one of them, with `count` indices, anew: a reader of
// a file finds the old or the new content. 0 or -errno; then some files may be
// new already.
int urnic_sysfs_set_gids(const char* root, uint32_t count,
                         const struct urnic_device_identity* device);

// The same for the state of the port of `device`, by name: ACTIVE or DOWN.
int urnic_sysfs_set_port_active(const char* root, const char* device,
                                int active);
