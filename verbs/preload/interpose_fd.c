#define _GNU_SOURCE
// The libc functions that take a descriptor, and socket. Descriptors that are
// not ours cost a load and a branch.

#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs/preload/comp_channel.h"
#include "verbs/preload/counter_file.h"
#include "verbs/preload/export.h"
#include "verbs/preload/fd_table.h"
#include "verbs/preload/next_call.h"
#include "verbs/preload/rdma_cm_node.h"
#include "verbs/preload/sysfs_tree.h"
#include "verbs/preload/uverbs_node.h"

static ssize_t read_any(int fd, void* out, size_t size) {
  struct urnic_fd_object* object = urnic_fd_hint(fd);
  if (__builtin_expect(object != NULL, 0) && object->kind == URNIC_FD_COUNTER)
    urnic_counter_before_read(object, fd);
  ssize_t n = urnic_next()->read(fd, out, size);
  if (__builtin_expect(object != NULL, 0) && n > 0 &&
      object->kind == URNIC_FD_CHANNEL)
    urnic_channel_after_read(object);
  return n;
}

URNIC_EXPORT ssize_t read(int fd, void* out, size_t size) {
  return read_any(fd, out, size);
}

// The fortified variant: the compiler knew that `out` has room for `room`
// bytes.
URNIC_EXPORT ssize_t __read_chk(int fd, void* out, size_t size, size_t room) {
  if (size > room) abort();
  return read_any(fd, out, size);
}

URNIC_EXPORT ssize_t write(int fd, const void* data, size_t size) {
  struct urnic_fd_object* object = urnic_fd_hint(fd);
  if (__builtin_expect(object != NULL, 0)) {
    ssize_t result;
    if (object->kind == URNIC_FD_RDMA_CM &&
        urnic_rdma_cm_write(object, fd, data, size, &result))
      return result;
    if (object->kind == URNIC_FD_UVERBS && urnic_fd_is_same(object, fd))
      return urnic_uverbs_write(data, size);
  }
  return urnic_next()->write(fd, data, size);
}

URNIC_EXPORT int close(int fd) {
  struct urnic_fd_object* object = urnic_fd_hint(fd);
  // A vfork child closes its own descriptors but shares its parent's memory.
  if (__builtin_expect(object != NULL, 0) && object->owner == getpid() &&
      urnic_fd_find(fd, object->kind) != NULL && urnic_fd_unpublish(object))
    urnic_fd_object_free(object);
  return urnic_next()->close(fd);
}

// libibverbs first asks the kernel for devices through this socket. If ib_core
// is a module, opening the socket loads it, and the kernel returns an empty
// list without an error; then libibverbs would never look at sysfs.
URNIC_EXPORT int socket(int domain, int type, int protocol) {
  if (__builtin_expect(domain == AF_NETLINK && protocol == NETLINK_RDMA, 0) &&
      urnic_tree_wanted()) {
    errno = EPROTONOSUPPORT;
    return -1;
  }
  return urnic_next()->socket(domain, type, protocol);
}
