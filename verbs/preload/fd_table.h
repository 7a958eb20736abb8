#pragma once

// Knows which descriptors of the process are ours.
//
// A program can close or replace a descriptor in ways that are not intercepted
// (dup2, close_range, a raw system call), and a child inherits descriptors that
// mean nothing there. So an entry is only a hint. It is valid as long as the
// descriptor has the same inode; every pipe has its own inode.
//
// Objects are never freed, only put on a list for reuse. A thread with an old
// pointer reads stale but valid memory, and notices under the object's lock.

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "verbs/preload/event_set.h"

enum urnic_fd_kind {
  URNIC_FD_FOREIGN = 0,
  URNIC_FD_UVERBS = 1,   // an open /dev/infiniband/uverbsN
  URNIC_FD_CHANNEL = 2,  // a completion channel
  URNIC_FD_RDMA_CM = 3,  // an open /dev/infiniband/rdma_cm
  URNIC_FD_COUNTER = 4,  // an open file in ports/1/counters: no pipe
};

struct urnic_fd_object {
  atomic_int kind;  // enum urnic_fd_kind; FOREIGN while unused
  int fd;           // the program's descriptor
  dev_t dev;        // identity of the pipe behind it
  ino_t ino;
  pid_t owner;  // a vfork child shares this memory and must not free it
  int device;   // not CHANNEL: which node (device_node.h)
  int counter;  // COUNTER: which (counter_file.c)
  struct urnic_fd_object* next_free;

  pthread_mutex_t lock;
  int own_fd;  // CHANNEL, RDMA_CM: both ends of the pipe, non-blocking

  // RDMA_CM only.
  void* file;       // the provider's
  unsigned users;   // commands under way; under `lock`
  int closed;       // closed by the program: the last user frees; under `lock`
  int ready;        // events wait; under `lock`
  int nonblocking;  // O_NONBLOCK, when it was last looked at; under `lock`
  int shown;        // bytes in the pipe; under `lock`
  int spare_fd;     // for the next wait (rdma_cm_node.c), or -1; under `lock`
  // NULL, or whether the object may be freed now; else it frees itself later.
  int (*on_free)(struct urnic_fd_object* object);

  // CHANNEL only.
  struct urnic_event_set waiting;  // under `lock`
  atomic_uint num_waiting;         // waiting.count, to be read without it
};

// A new object for the open pipe end `fd`, or NULL with errno.
struct urnic_fd_object* urnic_fd_object_new(int kind, int fd);
// Another descriptor for the pipe whose end is `fd`, open for both directions.
// It has its own O_NONBLOCK, set if `flags` has it. -1 with errno.
int urnic_fd_open_both_ends(int fd, int flags);
// The same, non-blocking. It writes events and takes them back. It is also a
// reader, so that no write raises SIGPIPE.
int urnic_fd_open_own_end(int fd);
// Publishes the object. An older object in its place was closed without our
// notice, and is released. 0, -ENOMEM, or -EMFILE for a descriptor beyond the
// table (1 Mi).
int urnic_fd_publish(struct urnic_fd_object* object);
// Whether descriptor `fd` is still the object's pipe. Keeps errno. Programs
// that close all descriptors also close our private ones, and their numbers are
// reused.
int urnic_fd_is_same(const struct urnic_fd_object* object, int fd);
// Withdraws it from the table. False if another thread was faster.
int urnic_fd_unpublish(struct urnic_fd_object* object);
// Releases everything that an object holds except `fd`. REQUIRES: it is not
// published.
void urnic_fd_object_free(struct urnic_fd_object* object);
// For a forked child: none of the inherited descriptors is ours.
void urnic_fd_forget_all(void);

#define URNIC_FD_ROW_BITS 10
#define URNIC_FD_ROWS 1024
#define URNIC_FD_ROW_SIZE (1 << URNIC_FD_ROW_BITS)
typedef _Atomic(struct urnic_fd_object*) urnic_fd_slot;
extern _Atomic(urnic_fd_slot*) urnic_fd_rows[URNIC_FD_ROWS];
extern atomic_int urnic_fd_any;

// The object that `fd` had when it was published, unchecked. A load and a
// branch while the process has no objects.
static inline struct urnic_fd_object* urnic_fd_hint(int fd) {
  if (!atomic_load_explicit(&urnic_fd_any, memory_order_acquire)) return NULL;
  if ((unsigned)fd >= URNIC_FD_ROWS * URNIC_FD_ROW_SIZE) return NULL;
  urnic_fd_slot* row = atomic_load_explicit(
      &urnic_fd_rows[fd >> URNIC_FD_ROW_BITS], memory_order_acquire);
  if (row == NULL) return NULL;
  return atomic_load_explicit(&row[fd & (URNIC_FD_ROW_SIZE - 1)],
                              memory_order_acquire);
}

// The same, but only if `fd` is still that object's pipe. Keeps errno.
struct urnic_fd_object* urnic_fd_find(int fd, int kind);
