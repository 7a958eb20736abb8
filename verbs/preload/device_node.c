#define _GNU_SOURCE
#include "verbs/preload/device_node.h"

#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "verbs/preload/rdma_cm_node.h"
#include "verbs/preload/uverbs_node.h"

static unsigned major_of(int node) {
  return node == URNIC_NODE_RDMA_CM ? URNIC_RDMA_CM_MAJOR : URNIC_UVERBS_MAJOR;
}

static unsigned minor_of(int node) {
  return node == URNIC_NODE_RDMA_CM ? URNIC_RDMA_CM_MINOR
                                    : (unsigned)(URNIC_UVERBS_MINOR_0 + node);
}

int urnic_node_open(int node, int flags) {
  return node == URNIC_NODE_RDMA_CM ? urnic_rdma_cm_open(flags)
                                    : urnic_uverbs_open(node, flags);
}

int urnic_node_access(int mode) {
  if ((mode & X_OK) == 0) return 0;
  errno = EACCES;
  return -1;
}

void urnic_node_stat(int node, struct stat* out) {
  memset(out, 0, sizeof(*out));
  out->st_mode = S_IFCHR | 0666;
  out->st_nlink = 1;
  out->st_rdev = makedev(major_of(node), minor_of(node));
  out->st_ino = major_of(node) * 256 + minor_of(node);
  out->st_blksize = 4096;
}

void urnic_node_statx(int node, struct statx* out) {
  memset(out, 0, sizeof(*out));
  out->stx_mask = STATX_BASIC_STATS;
  out->stx_mode = S_IFCHR | 0666;
  out->stx_nlink = 1;
  out->stx_rdev_major = major_of(node);
  out->stx_rdev_minor = minor_of(node);
  out->stx_ino = major_of(node) * 256 + minor_of(node);
  out->stx_blksize = 4096;
}
