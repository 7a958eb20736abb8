#pragma once

// The paths that are emulated, and how.
//
//   /sys/class/infiniband*     the rendered tree
//   /sys/class/misc/rdma_cm*   the rendered tree
//   /dev/infiniband            the rendered tree, for listings
//   /dev/infiniband/uverbsN    a device node (device_node.h)
//   /dev/infiniband/rdma_cm    a device node
//
// Relative paths count as well, from the working directory or an open
// directory. It may be in the tree of the process that started this one, whose
// files of counters are empty. Paths that take a detour (/sys/./class, a
// symbolic link) are not recognized.

enum urnic_path_kind {
  URNIC_PATH_OTHER,   // none of the above: left to libc
  URNIC_PATH_TREE,    // `path` says where it really is
  URNIC_PATH_NODE,    // the node `device`; `path` is its listing
  URNIC_PATH_ABSENT,  // RDMA, but there is nothing: ENOENT
};

struct urnic_rdma_path {
  int device;  // as in device_node.h
  char path[768];
};

// A cheap check in every file operation of the program. Not inline: libc's
// headers tell the compiler that paths are never NULL. A program that passes
// NULL must get EFAULT and not crash.
int urnic_may_be_rdma(const char* path);

// Resolves a path that may be RDMA. Renders the tree if it is. `dirfd` as in
// openat(2). Keeps errno.
enum urnic_path_kind urnic_rdma_resolve(int dirfd, const char* path,
                                        struct urnic_rdma_path* out);
