#pragma once

// The emulated device nodes: their attributes, and how to open them.

#include <sys/stat.h>

struct statx;

#define URNIC_UVERBS_MAJOR 231
#define URNIC_UVERBS_MINOR_0 192
// A misc device; Linux chooses the minor number when it is registered.
#define URNIC_RDMA_CM_MAJOR 10
#define URNIC_RDMA_CM_MINOR 58

// The node: of a device, N of its uverbsN; or this for rdma_cm.
#define URNIC_NODE_RDMA_CM 1000

// Returns the descriptor, or -1 with errno. Only O_CLOEXEC and O_NONBLOCK of
// `flags` have an effect.
int urnic_node_open(int node, int flags);
// As access(2): everything except execution is allowed.
int urnic_node_access(int mode);
void urnic_node_stat(int node, struct stat* out);
void urnic_node_statx(int node, struct statx* out);
