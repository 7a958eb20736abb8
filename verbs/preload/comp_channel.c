#define _GNU_SOURCE
#include "verbs/preload/comp_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "verbs/preload/cancellation.h"
#include "verbs/preload/fd_table.h"
#include "verbs/preload/fork_safety.h"

// The events of one write: no more than a pipe takes atomically, and few enough
// for a small stack.
#define CHUNK 128
_Static_assert(CHUNK * sizeof(uint64_t) <= PIPE_BUF, "writes must be atomic");

// One page of events, for drop_from_pipe() only.
static pthread_mutex_t page_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t page[4096 / sizeof(uint64_t)];

static void unlock_page_in_child(void) { pthread_mutex_init(&page_lock, NULL); }

int urnic_channel_open(void) {
  int ends[2];
  urnic_fork_safety_on(unlock_page_in_child);
  if (pipe2(ends, O_CLOEXEC) != 0) return -errno;
  int err = 0;
  struct urnic_fd_object* channel =
      urnic_fd_object_new(URNIC_FD_CHANNEL, ends[0]);
  if (channel == NULL || (channel->own_fd = urnic_fd_open_own_end(ends[0])) < 0)
    err = -errno;
  close(ends[1]);
  if (err == 0) err = urnic_fd_publish(channel);
  if (err == 0) return ends[0];
  if (channel != NULL) urnic_fd_object_free(channel);
  close(ends[0]);
  return err;
}

// Returns the channel locked, or NULL.
static struct urnic_fd_object* lock_channel(int fd) {
  struct urnic_fd_object* channel = urnic_fd_hint(fd);
  if (channel == NULL) return NULL;
  pthread_mutex_lock(&channel->lock);
  // This costs 0.1 us, little compared with the write that wakes the program.
  if (channel->kind == URNIC_FD_CHANNEL && channel->fd == fd &&
      urnic_fd_is_same(channel, channel->own_fd))
    return channel;
  pthread_mutex_unlock(&channel->lock);
  return NULL;
}

static void unlock_channel(struct urnic_fd_object* channel) {
  atomic_store_explicit(&channel->num_waiting, channel->waiting.count,
                        memory_order_release);
  pthread_mutex_unlock(&channel->lock);
}

static int write_whole(const struct urnic_fd_object* channel,
                       const uint64_t* handles, uint32_t n) {
  ssize_t bytes = (ssize_t)(n * sizeof(*handles));
  return write(channel->own_fd, handles, (size_t)bytes) == bytes;
}

static void move_waiting(struct urnic_fd_object* channel) {
  uint64_t chunk[CHUNK];
  while (channel->waiting.count > 0) {
    uint32_t n = urnic_event_set_peek(&channel->waiting, chunk, CHUNK);
    if (!write_whole(channel, chunk, n)) return;
    for (uint32_t i = 0; i < n; ++i)
      urnic_event_set_remove(&channel->waiting, chunk[i]);
  }
}

// Runs with cancellation off: no thread may end while it holds the lock.
static int push(int channel_fd, uint64_t cq_handle) {
  struct urnic_fd_object* channel = lock_channel(channel_fd);
  if (channel == NULL) return -EBADF;
  int saved_errno = errno;
  int rc = 1;
  // Do not overtake waiting events, or they could wait forever.
  if (channel->waiting.count > 0 || !write_whole(channel, &cq_handle, 1)) {
    rc = urnic_event_set_add(&channel->waiting, cq_handle);
    // Store the number before trying again: a reader that empties the pipe
    // after this attempt takes the pipe's lock after it, and sees the number.
    atomic_store(&channel->num_waiting, channel->waiting.count);
    move_waiting(channel);
  }
  unlock_channel(channel);
  errno = saved_errno;
  return rc;
}

int urnic_channel_push(int channel_fd, uint64_t cq_handle) {
  int before = urnic_cancellation_off();
  int rc = push(channel_fd, cq_handle);
  urnic_cancellation_back(before);
  return rc;
}

// Reads the whole pipe once, page by page, and writes back all but the CQ's
// events. They always fit: reading a page frees a slot of the pipe, writing the
// rest of it takes one at most, and the channel's lock keeps other writers
// away.
static unsigned drop_from_pipe(struct urnic_fd_object* channel,
                               uint64_t cq_handle) {
  int left = 0;
  if (ioctl(channel->own_fd, FIONREAD, &left) != 0) return 0;
  unsigned dropped = 0;
  pthread_mutex_lock(&page_lock);
  while (left > 0) {
    size_t want = (size_t)left < sizeof(page) ? (size_t)left : sizeof(page);
    ssize_t got = read(channel->own_fd, page, want);
    if (got <= 0) break;  // the program has read the rest in the meantime
    left -= (int)got;
    uint32_t kept = 0;
    for (size_t i = 0; i < (size_t)got / sizeof(page[0]); ++i) {
      if (page[i] == cq_handle)
        ++dropped;
      else
        page[kept++] = page[i];
    }
    if (kept > 0) write_whole(channel, page, kept);
  }
  pthread_mutex_unlock(&page_lock);
  return dropped;
}

static unsigned drop(int channel_fd, uint64_t cq_handle) {
  struct urnic_fd_object* channel = lock_channel(channel_fd);
  if (channel == NULL) return 0;
  int saved_errno = errno;
  unsigned dropped = drop_from_pipe(channel, cq_handle);
  dropped += (unsigned)urnic_event_set_remove(&channel->waiting, cq_handle);
  move_waiting(channel);
  unlock_channel(channel);
  errno = saved_errno;
  return dropped;
}

unsigned urnic_channel_drop(int channel_fd, uint64_t cq_handle) {
  int before = urnic_cancellation_off();
  unsigned dropped = drop(channel_fd, cq_handle);
  urnic_cancellation_back(before);
  return dropped;
}

void urnic_channel_after_read(struct urnic_fd_object* channel) {
  if (atomic_load(&channel->num_waiting) == 0) return;
  int saved_errno = errno;
  int before = urnic_cancellation_off();
  pthread_mutex_lock(&channel->lock);
  if (channel->kind == URNIC_FD_CHANNEL) move_waiting(channel);
  unlock_channel(channel);
  urnic_cancellation_back(before);
  errno = saved_errno;
}
