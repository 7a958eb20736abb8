#pragma once

// The tree with this process's devices. It is created from URNIC_PORTS when the
// program first accesses an RDMA path, and removed at exit. A forked child has
// no tree until it accesses such a path itself, because its parent may exit
// first.

#include <stddef.h>

// Whether URNIC_PORTS names a port. If not, this library changes nothing.
int urnic_tree_wanted(void);

// The directory that represents "/" (see run_dir.h), rendered if necessary.
// NULL if it cannot be rendered, or if the program has a libibverbs that would
// not load our provider; a message on stderr says why. Keeps errno.
const char* urnic_tree_root(void);

// What died programs had left, and this process has removed before it made its
// own directory; in the order in which it was found, `i` from 0. NULL: no more,
// or nothing is rendered. Only the first 16 are named; the last text says how
// many more there are.
const char* urnic_tree_removed(int i);

// Shows the new GIDs of a device, which is found by its name. 0 or -errno;
// -ENOENT: nothing is rendered.
struct urnic_device_identity;
int urnic_tree_set_gids(const struct urnic_device_identity* device);

// Shows the state of the port of the device with this name. As above.
int urnic_tree_set_port_active(const char* device, int active);

// The device with this name, as configured; NULL: there is none.
const struct urnic_device_identity* urnic_tree_find(const char* name);

// The device with this node (uverbs<node>); NULL: there is none.
const struct urnic_device_identity* urnic_tree_at(int node);

// The number of devices; 0 before urnic_tree_root() has succeeded.
int urnic_tree_num_devices(void);
