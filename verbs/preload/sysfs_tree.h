#pragma once

// When this process's devices come into being: on the first touch of an RDMA
// path, from URNIC_PORTS, once. Removed at exit. A forked child has none until
// it touches such a path itself, because its parent may exit first.

#include <stddef.h>

// Does URNIC_PORTS name any port? If not, this library changes nothing.
int urnic_tree_wanted(void);

// The directory that stands for "/" (see run_dir.h), rendered if need be; NULL
// when it cannot be, or when the program has a libibverbs that would not load
// our provider, after a message on stderr that says why. Keeps errno.
const char* urnic_tree_root(void);

// Shows other GIDs of a device, whose name counts. 0 or -errno; -ENOENT:
// nothing is rendered.
struct urnic_device_identity;
int urnic_tree_set_gids(const struct urnic_device_identity* device);

// Shows the state of the port of the device with this name. As above.
int urnic_tree_set_port_active(const char* device, int active);

// How many devices there are; 0 before urnic_tree_root() succeeded.
int urnic_tree_num_devices(void);
