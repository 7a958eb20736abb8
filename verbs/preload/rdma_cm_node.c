#define _GNU_SOURCE
#include "verbs/preload/rdma_cm_node.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "verbs/libc/high_fd.h"
#include "verbs/preload/cancellation.h"
#include "verbs/preload/device_node.h"
#include "verbs/preload/fd_table.h"

static _Atomic(const struct urnic_rdma_cm_device*) the_device;

int urnic_rdma_cm_set_device(const struct urnic_rdma_cm_device* device) {
  const struct urnic_rdma_cm_device* none = NULL;
  return atomic_compare_exchange_strong(&the_device, &none, device) ? 0
                                                                    : -EBUSY;
}

// The most bytes in a pipe: each event adds one, up to here. A page, which
// every pipe has, holds more.
#define MOST_SHOWN 1024

// Makes the pipe readable, or not, as `ready` says. `news`: a new event has
// arrived, so edge-triggered waiters (EPOLLET) get an edge even if the pipe is
// readable already, as from the kernel's node. One system call and the check of
// the descriptor, or none if the pipe is what it should be. REQUIRES: the lock
// is held.
static void show_ready(struct urnic_fd_object* object, int news) {
  int adds = object->ready && (news || object->shown == 0);
  if (!adds && (object->ready || object->shown == 0)) return;
  if (!urnic_fd_is_same(object, object->own_fd)) return;
  static const char byte = 0;
  char bytes[MOST_SHOWN];
  // Nothing here waits: the descriptor is non-blocking, and a pipe has room for
  // this many bytes.
  if (adds && object->shown < MOST_SHOWN) {
    if (write(object->own_fd, &byte, 1) == 1) ++object->shown;
    return;
  }
  // Full: takes one byte and writes it again, for the edge.
  ssize_t got = read(object->own_fd, bytes, adds ? 1 : sizeof(bytes));
  object->shown -= got > 0 ? (int)got : object->shown;
  if (adds && write(object->own_fd, &byte, 1) == 1) ++object->shown;
}

// Counts the bytes again. REQUIRES: the lock is held.
static void count_shown(struct urnic_fd_object* object) {
  int held = 0;
  if (urnic_fd_is_same(object, object->own_fd) &&
      ioctl(object->own_fd, FIONREAD, &held) == 0)
    object->shown = held;
}

void urnic_rdma_cm_set_ready(void* node, int ready) {
  struct urnic_fd_object* object = node;
  int saved_errno = errno;
  int before = urnic_cancellation_off();
  pthread_mutex_lock(&object->lock);
  object->ready = ready;
  show_ready(object, ready == URNIC_RDMA_CM_NEW_EVENT);
  pthread_mutex_unlock(&object->lock);
  urnic_cancellation_back(before);
  errno = saved_errno;
}

void* urnic_rdma_cm_file(int fd) {
  struct urnic_fd_object* object = urnic_fd_find(fd, URNIC_FD_RDMA_CM);
  return object != NULL ? object->file : NULL;
}

// Begins a command. False if the program has closed the descriptor.
static int begin_use(struct urnic_fd_object* object, int fd) {
  pthread_mutex_lock(&object->lock);
  int open = object->kind == URNIC_FD_RDMA_CM && object->fd == fd &&
             !object->closed && urnic_fd_is_same(object, fd);
  if (open) ++object->users;
  pthread_mutex_unlock(&object->lock);
  return open;
}

// Whether a command that has found no event is to wait for one. A program that
// has closed its descriptor in the meantime waits if it would have waited
// before; if we did not notice the close, it waits. REQUIRES: between
// begin_use() and end_use().
static int wants_to_wait(struct urnic_fd_object* object) {
  pthread_mutex_lock(&object->lock);
  if (!object->closed && urnic_fd_is_same(object, object->fd))
    object->nonblocking = (fcntl(object->fd, F_GETFL) & O_NONBLOCK) != 0;
  int waits = !object->nonblocking;
  pthread_mutex_unlock(&object->lock);
  return waits;
}

static void end_use(struct urnic_fd_object* object) {
  pthread_mutex_lock(&object->lock);
  int last = --object->users == 0 && object->closed;
  pthread_mutex_unlock(&object->lock);
  if (last) urnic_fd_object_free(object);
}

// The object's on_free(): whether it may be freed now. While a command is under
// way the file stays; the end of the command frees it.
static int let_go(struct urnic_fd_object* object) {
  pthread_mutex_lock(&object->lock);
  object->closed = 1;
  int busy = object->users > 0;
  // Afterwards nobody can ask any more.
  if (busy && urnic_fd_is_same(object, object->fd))
    object->nonblocking = (fcntl(object->fd, F_GETFL) & O_NONBLOCK) != 0;
  pthread_mutex_unlock(&object->lock);
  if (busy) return 0;
  // NULL if the provider has refused to open.
  if (object->file != NULL) {
    int before = urnic_cancellation_off();
    atomic_load(&the_device)->close(object->file);
    urnic_cancellation_back(before);
  }
  return 1;
}

// The node around an open pipe, or NULL with errno.
static struct urnic_fd_object* make_node(
    const struct urnic_rdma_cm_device* device, int fd) {
  struct urnic_fd_object* node = urnic_fd_object_new(URNIC_FD_RDMA_CM, fd);
  if (node == NULL) return NULL;
  node->device = URNIC_NODE_RDMA_CM;
  node->on_free = let_go;
  node->own_fd = urnic_fd_open_own_end(fd);
  if (node->own_fd >= 0) {
    int before = urnic_cancellation_off();
    node->file = device->open(node);
    urnic_cancellation_back(before);
  }
  int err = node->file == NULL ? -errno : urnic_fd_publish(node);
  if (err == 0) return node;
  urnic_fd_object_free(node);
  errno = -err;
  return NULL;
}

int urnic_rdma_cm_open(int flags) {
  const struct urnic_rdma_cm_device* device = atomic_load(&the_device);
  if (device == NULL) {
    errno = ENODEV;
    return -1;
  }
  int ends[2];
  if (pipe2(ends, flags & (O_CLOEXEC | O_NONBLOCK)) != 0) return -1;
  struct urnic_fd_object* node = make_node(device, ends[0]);
  int err = errno;
  close(ends[1]);
  if (node != NULL) return ends[0];
  close(ends[0]);
  errno = err;
  return -1;
}

struct wait {
  struct urnic_fd_object* node;
  ino_t ino;  // of its pipe: the node may be another's after the wait
  int pipe;   // -1: the program does not wait
  int ours;   // to be closed by us; otherwise it is the program's
};

// Whether the node is still that of the wait. REQUIRES: its lock is held.
static int is_of_wait(const struct wait* wait) {
  return wait->node->kind == URNIC_FD_RDMA_CM && wait->node->ino == wait->ino;
}

// Ends the wait of a cancelled thread. It may already have read the byte, so
// the pipe is made readable again for the other threads.
static void abandon_wait(void* arg) {
  const struct wait* wait = arg;
  pthread_mutex_lock(&wait->node->lock);
  if (is_of_wait(wait)) {
    count_shown(wait->node);
    show_ready(wait->node, /*news=*/0);
  }
  pthread_mutex_unlock(&wait->node->lock);
  if (wait->ours) close(wait->pipe);
}

// Prepares a wait. REQUIRES: between begin_use() and end_use(). The wait uses
// another descriptor than the program's: the program may close its own in the
// meantime, and the number may soon mean another file. The descriptor is kept
// for the next wait, because opening it costs four system calls.
static struct wait begin_wait(struct urnic_fd_object* node, int fd) {
  struct wait wait = {node, node->ino, -1, 0};
  pthread_mutex_lock(&node->lock);
  wait.pipe = node->spare_fd;
  node->spare_fd = -1;
  pthread_mutex_unlock(&node->lock);
  if (wait.pipe < 0 || !urnic_fd_is_same(node, wait.pipe))
    wait.pipe = urnic_fd_open_both_ends(node->own_fd, 0);
  wait.ours = wait.pipe >= 0;
  // If no descriptor is free, no other file can get the program's number soon.
  if (!wait.ours) wait.pipe = fd;
  return wait;
}

// After a wait that was not cancelled. `took`: it has read a byte.
static void end_wait(struct wait* wait, int took) {
  pthread_mutex_lock(&wait->node->lock);
  if (is_of_wait(wait)) {
    if (took && wait->node->shown > 0) --wait->node->shown;
    if (wait->ours && wait->node->spare_fd < 0 && !wait->node->closed) {
      wait->node->spare_fd = wait->pipe;
      wait->ours = 0;
    }
  }
  pthread_mutex_unlock(&wait->node->lock);
  if (wait->ours) close(wait->pipe);
}

// Waits until there may be events; false with errno. REQUIRES: after end_use(),
// because the waiting thread may be cancelled. If the program closes the
// descriptor, the wait goes on, as in the kernel: programs close it at their
// end, and the waiting thread would report an error.
static int wait_for_event(struct wait* wait) {
  if (wait->pipe < 0) return 0;
  char byte;
  ssize_t got;
  int before;
  pthread_cleanup_push(abandon_wait, wait);
  got = read(wait->pipe, &byte, 1);
  before = urnic_cancellation_off();
  pthread_cleanup_pop(0);
  int err = got < 0 ? errno : EBADF;
  end_wait(wait, got > 0);
  urnic_cancellation_back(before);
  errno = err;
  return got > 0;
}

int urnic_rdma_cm_write(struct urnic_fd_object* node, int fd,
                        const void* command, size_t size, ssize_t* result) {
  const struct urnic_rdma_cm_device* device = atomic_load(&the_device);
  int saved_errno = errno;
  for (int first = 1;; first = 0) {
    if (!begin_use(node, fd)) {
      if (first) return 0;
      errno = EBADF;
      *result = -1;
      return 1;
    }
    // The provider is C++ and takes locks: its thread must not be cancelled.
    int before = urnic_cancellation_off();
    int rc = device->write(node->file, command, size);
    struct wait wait = {node, 0, -1, 0};
    if (rc == -EAGAIN && wants_to_wait(node)) wait = begin_wait(node, fd);
    end_use(node);
    urnic_cancellation_back(before);
    errno = rc == 0 ? saved_errno : -rc;
    *result = rc == 0 ? (ssize_t)size : -1;
    if (rc != -EAGAIN || !wait_for_event(&wait)) return 1;
  }
}
