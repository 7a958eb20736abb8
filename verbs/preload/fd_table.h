#pragma once

// Which descriptors of the process are ours.
//
// A program can close or replace a descriptor by roads that are not watched
// (dup2, close_range, a raw system call), and a child inherits descriptors that
// mean nothing there. So an entry is a hint that is believed only while the
// descriptor still is the same inode: every pipe has its own.
//
// Objects are never given back to malloc, only to a list for reuse: a thread
// that still holds a pointer reads stale but valid memory and finds out under
// the object's lock.

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
};

struct urnic_fd_object {
  atomic_int kind;  // enum urnic_fd_kind; FOREIGN while unused
  int fd;           // the program's descriptor
  dev_t dev;        // identity of the pipe behind it
  ino_t ino;
  pid_t owner;  // a vfork child shares this memory: not its to free
  int device;   // UVERBS, RDMA_CM: which node (device_node.h)
  struct urnic_fd_object* next_free;

  pthread_mutex_t lock;
  int own_fd;  // CHANNEL, RDMA_CM: both ends of the pipe, non-blocking

  // RDMA_CM only.
  void* file;      // the provider's
  unsigned users;  // commands under way; under `lock`
  int closed;      // by the program; the last user frees; under `lock`
  int ready;       // events wait; under `lock`
  // NULL, or whether the object may be freed now; else it frees itself later.
  int (*on_free)(struct urnic_fd_object* object);

  // CHANNEL only.
  struct urnic_event_set waiting;  // under `lock`
  atomic_uint num_waiting;         // waiting.count, to be read without it
};

// A new object for the open pipe end `fd`, or NULL with errno.
struct urnic_fd_object* urnic_fd_object_new(int kind, int fd);
// One more descriptor for the pipe whose end is `fd`, open for both directions,
// with O_NONBLOCK of its own if `flags` has it. -1 with errno.
int urnic_fd_open_both_ends(int fd, int flags);
// That, never blocking: it writes events, takes them back, and keeps a reader
// in being, so that no write ever raises SIGPIPE.
int urnic_fd_open_own_end(int fd);
// Makes the object findable; one that was there was closed unseen and goes.
// 0, -ENOMEM, or -EMFILE for a descriptor beyond the table (1 Mi).
int urnic_fd_publish(struct urnic_fd_object* object);
// Is descriptor `fd` still the object's pipe? Keeps errno. Programs that close
// everything close our private descriptors as well, and the numbers come back.
int urnic_fd_is_same(const struct urnic_fd_object* object, int fd);
// Makes it unfindable. False if another thread was faster.
int urnic_fd_unpublish(struct urnic_fd_object* object);
// Releases all that an object holds but `fd` itself. It must not be published.
void urnic_fd_object_free(struct urnic_fd_object* object);
// In a forked child: none of the inherited descriptors is ours.
void urnic_fd_forget_all(void);

#define URNIC_FD_ROW_BITS 10
#define URNIC_FD_ROWS 1024
#define URNIC_FD_ROW_SIZE (1 << URNIC_FD_ROW_BITS)
typedef _Atomic(struct urnic_fd_object*) urnic_fd_slot;
extern _Atomic(urnic_fd_slot*) urnic_fd_rows[URNIC_FD_ROWS];
extern atomic_int urnic_fd_any;

// The object believed to be behind `fd`, unchecked. A load and a branch while
// the process has none.
static inline struct urnic_fd_object* urnic_fd_hint(int fd) {
  if (!atomic_load_explicit(&urnic_fd_any, memory_order_acquire)) return NULL;
  if ((unsigned)fd >= URNIC_FD_ROWS * URNIC_FD_ROW_SIZE) return NULL;
  urnic_fd_slot* row = atomic_load_explicit(
      &urnic_fd_rows[fd >> URNIC_FD_ROW_BITS], memory_order_acquire);
  if (row == NULL) return NULL;
  return atomic_load_explicit(&row[fd & (URNIC_FD_ROW_SIZE - 1)],
                              memory_order_acquire);
}

// The same, checked: the descriptor still is what it was. Keeps errno.
struct urnic_fd_object* urnic_fd_find(int fd, int kind);
