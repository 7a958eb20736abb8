#include "verbs/provider/async_events.h"

#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "verbs/libc/high_fd.h"

namespace urnic::provider {

namespace {

using Event = ib_uverbs_async_event_desc;
static_assert(sizeof(Event) == 16);

constexpr int kPipeBytes = 1 << 20;

// Opens the pipe a second time: O_NONBLOCK of this file description does not
// affect the program's. Its number is out of the program's way.
int OpenAgain(int fd) {
  const std::string path = "/proc/thread-self/fd/" + std::to_string(fd);
  return urnic_move_fd_high(
      open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
}

}  // namespace

int AsyncEvents::Open() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return errno;
  own_fd_ = OpenAgain(ends[0]);
  const int error = errno;
  close(ends[1]);
  if (own_fd_ < 0) {
    close(ends[0]);
    return error;
  }
  read_fd_ = ends[0];
  return 0;
}

AsyncEvents::~AsyncEvents() {
  if (own_fd_ >= 0) close(own_fd_);
}

bool AsyncEvents::Write(const void* events, size_t bytes) {
  ssize_t written = 0;
  do {
    written = write(own_fd_, events, bytes);
  } while (written < 0 && errno == EINTR);
  return written == static_cast<ssize_t>(bytes);
}

bool AsyncEvents::Push(uint64_t element, uint32_t type) {
  const int saved = errno;
  Event event = {};
  event.element = element;
  event.event_type = type;
  bool done = Write(&event, sizeof(event));
  // 4096 events fit at first. The pipe grows when more are unread.
  if (!done && fcntl(own_fd_, F_SETPIPE_SZ, kPipeBytes) >= 0) {
    done = Write(&event, sizeof(event));
  }
  errno = saved;
  return done;
}

uint32_t AsyncEvents::Drop(uint64_t element) {
  // One at a time: another thread must not find the pipe empty while this one
  // holds its events.
  std::lock_guard lock(drop_mutex_);
  const int saved = errno;
  uint32_t dropped = 0;
  std::vector<Event> others;
  Event event;
  while (read(own_fd_, &event, sizeof(event)) == sizeof(event)) {
    if (event.element == element) {
      ++dropped;
    } else {
      others.push_back(event);
    }
  }
  for (const Event& other : others) Write(&other, sizeof(other));
  errno = saved;
  return dropped;
}

}  // namespace urnic::provider
