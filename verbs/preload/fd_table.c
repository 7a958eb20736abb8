#define _GNU_SOURCE
#include "verbs/preload/fd_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs/libc/high_fd.h"
#include "verbs/preload/cancellation.h"
#include "verbs/preload/fork_safety.h"

_Atomic(urnic_fd_slot*) urnic_fd_rows[URNIC_FD_ROWS];
atomic_int urnic_fd_any;

static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
static struct urnic_fd_object* free_list;

static struct urnic_fd_object* take_free(void) {
  pthread_mutex_lock(&free_lock);
  struct urnic_fd_object* object = free_list;
  if (object != NULL) free_list = object->next_free;
  pthread_mutex_unlock(&free_lock);
  if (object != NULL) return object;
  object = calloc(1, sizeof(*object));
  if (object != NULL) pthread_mutex_init(&object->lock, NULL);
  return object;
}

struct urnic_fd_object* urnic_fd_object_new(int kind, int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0) return NULL;
  struct urnic_fd_object* object = take_free();
  if (object == NULL) return NULL;
  object->kind = kind;
  object->fd = fd;
  object->dev = st.st_dev;
  object->ino = st.st_ino;
  object->owner = getpid();
  object->own_fd = -1;
  object->file = NULL;
  object->users = 0;
  object->closed = 0;
  object->ready = 0;
  object->nonblocking = 0;
  object->shown = 0;
  object->spare_fd = -1;
  object->on_free = NULL;
  return object;
}

int urnic_fd_open_both_ends(int fd, int flags) {
  char path[40];
  // Not /proc/self, which is empty once the main thread has ended.
  snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", fd);
  return urnic_move_fd_high(open(path, O_RDWR | O_CLOEXEC | flags));
}

int urnic_fd_open_own_end(int fd) {
  return urnic_fd_open_both_ends(fd, O_NONBLOCK);
}

// The slot of `fd` in its row, which is created if `make` is set.
static urnic_fd_slot* slot_of(int fd, int make) {
  if ((unsigned)fd >= URNIC_FD_ROWS * URNIC_FD_ROW_SIZE) return NULL;
  _Atomic(urnic_fd_slot*)* place = &urnic_fd_rows[fd >> URNIC_FD_ROW_BITS];
  urnic_fd_slot* row = atomic_load(place);
  if (row == NULL && make) {
    urnic_fd_slot* fresh = calloc(URNIC_FD_ROW_SIZE, sizeof(*fresh));
    if (atomic_compare_exchange_strong(place, &row, fresh))
      row = fresh;
    else
      free(fresh);
  }
  return row ? &row[fd & (URNIC_FD_ROW_SIZE - 1)] : NULL;
}

int urnic_fd_publish(struct urnic_fd_object* object) {
  if ((unsigned)object->fd >= URNIC_FD_ROWS * URNIC_FD_ROW_SIZE) return -EMFILE;
  urnic_fd_slot* slot = slot_of(object->fd, 1);
  if (slot == NULL) return -ENOMEM;
  struct urnic_fd_object* unseen = atomic_exchange(slot, object);
  urnic_fork_safety_on(urnic_fd_forget_all);
  atomic_store(&urnic_fd_any, 1);
  if (unseen != NULL) urnic_fd_object_free(unseen);
  return 0;
}

int urnic_fd_unpublish(struct urnic_fd_object* object) {
  urnic_fd_slot* slot = slot_of(object->fd, 0);
  struct urnic_fd_object* expected = object;
  return slot != NULL && atomic_compare_exchange_strong(slot, &expected, NULL);
}

void urnic_fd_object_free(struct urnic_fd_object* object) {
  if (object->on_free != NULL && !object->on_free(object)) return;
  int before = urnic_cancellation_off();
  pthread_mutex_lock(&object->lock);
  object->kind = URNIC_FD_FOREIGN;
  if (object->own_fd >= 0 && urnic_fd_is_same(object, object->own_fd))
    close(object->own_fd);
  object->own_fd = -1;
  if (object->spare_fd >= 0 && urnic_fd_is_same(object, object->spare_fd))
    close(object->spare_fd);
  object->spare_fd = -1;
  urnic_event_set_clear(&object->waiting);
  atomic_store(&object->num_waiting, 0);
  pthread_mutex_unlock(&object->lock);

  pthread_mutex_lock(&free_lock);
  object->next_free = free_list;
  free_list = object;
  pthread_mutex_unlock(&free_lock);
  urnic_cancellation_back(before);
}

void urnic_fd_forget_all(void) {
  atomic_store(&urnic_fd_any, 0);
  for (int i = 0; i < URNIC_FD_ROWS; ++i) {
    urnic_fd_slot* row = atomic_load(&urnic_fd_rows[i]);
    if (row != NULL) memset((void*)row, 0, URNIC_FD_ROW_SIZE * sizeof(*row));
  }
  // The thread that held the lock may not exist in this child.
  pthread_mutex_init(&free_lock, NULL);
  free_list = NULL;
}

int urnic_fd_is_same(const struct urnic_fd_object* object, int fd) {
  struct stat st;
  int saved_errno = errno;
  int rc = fstat(fd, &st);
  errno = saved_errno;
  return rc == 0 && st.st_dev == object->dev && st.st_ino == object->ino;
}

struct urnic_fd_object* urnic_fd_find(int fd, int kind) {
  struct urnic_fd_object* object = urnic_fd_hint(fd);
  if (object == NULL || object->kind != kind) return NULL;
  return urnic_fd_is_same(object, fd) ? object : NULL;
}
