#pragma once

// The files that the kernel would show for RDMA devices, if libibverbs,
// perftest, UCX or pyverbs reads them. README.md lists what is left out, and
// why a missing file is better than a wrong one.

#include "verbs/identity/device_identity.h"

// Writes sys/class/... and dev/infiniband below the existing directory `root`.
// 0 or -errno.
int urnic_sysfs_render(const char* root,
                       const struct urnic_device_identity* devices,
                       int num_devices);

// Rewrites the GID table of one device, with `count` indices. A reader of a
// file sees either the old or the new content. 0, or -errno; then some files
// may already be new.
int urnic_sysfs_set_gids(const char* root, uint32_t count,
                         const struct urnic_device_identity* device);

// The same for the state of the port of `device`, by name: ACTIVE or DOWN.
int urnic_sysfs_set_port_active(const char* root, const char* device,
                                int active);
