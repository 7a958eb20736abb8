#include "verbs/provider/async_events.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "datapath/guest/engine_thread.h"
#include "verbs/control/debug_log.h"
#include "verbs/libc/high_fd.h"

namespace urnic::provider {

namespace {

static_assert(sizeof(ib_uverbs_async_event_desc) == 16);

// The events of one write.
constexpr size_t kChunk = PIPE_BUF / sizeof(ib_uverbs_async_event_desc);

// Opens the pipe a second time: O_NONBLOCK of this file description does not
// affect the program's. Its number is out of the program's way.
int OpenAgain(int fd) {
  const std::string path = "/proc/thread-self/fd/" + std::to_string(fd);
  return urnic_move_fd_high(
      open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
}

ib_uverbs_async_event_desc EventOf(const std::pair<uint64_t, uint32_t>& key) {
  ib_uverbs_async_event_desc event = {};
  event.element = key.first;
  event.event_type = key.second;
  return event;
}

}  // namespace

int AsyncEvents::Open() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return errno;
  own_fd_ = OpenAgain(ends[0]);
  int error = own_fd_ < 0 ? errno : 0;
  close(ends[1]);
  if (error == 0) {
    stop_fd_ = urnic_move_fd_high(eventfd(0, EFD_CLOEXEC));
    error = stop_fd_ < 0 ? errno : 0;
  }
  if (error != 0) {
    close(ends[0]);
    return error;
  }
  // While the program reads one page, the other one holds what follows. If the
  // pipe stays longer, a Drop() only takes longer.
  fcntl(own_fd_, F_SETPIPE_SZ, 2 * sysconf(_SC_PAGESIZE));
  read_fd_ = ends[0];
  return 0;
}

AsyncEvents::~AsyncEvents() {
  const uint64_t one = 1;
  if (stop_fd_ >= 0) (void)!write(stop_fd_, &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
  if (stop_fd_ >= 0) close(stop_fd_);
  if (own_fd_ >= 0) close(own_fd_);
}

bool AsyncEvents::Write(const Event* events, size_t count) {
  const auto bytes = static_cast<ssize_t>(count * sizeof(*events));
  ssize_t written = 0;
  do {
    written = write(own_fd_, events, static_cast<size_t>(bytes));
  } while (written < 0 && errno == EINTR);
  return written == bytes;
}

void AsyncEvents::Move() {
  std::vector<Event> chunk;
  while (!waiting_.empty()) {
    chunk.clear();
    auto end = waiting_.begin();
    for (; end != waiting_.end() && chunk.size() < kChunk; ++end)
      chunk.push_back(EventOf(end->second));
    if (!Write(chunk.data(), chunk.size())) return;
    for (auto moved = waiting_.begin(); moved != end; ++moved)
      places_.erase(moved->second);
    waiting_.erase(waiting_.begin(), end);
  }
}

bool AsyncEvents::Push(uint64_t element, uint32_t type) {
  std::lock_guard lock(mutex_);
  const int saved = errno;
  const Key key(element, type);
  bool is_new = true;
  const Event event = EventOf(key);
  if (!waiting_.empty() || !Write(&event, 1)) {
    const auto [place, added] = places_.try_emplace(key, next_place_);
    is_new = added;
    if (!added) waiting_.erase(std::exchange(place->second, next_place_));
    waiting_.emplace(next_place_++, key);
    StartThread();
  }
  errno = saved;
  return is_new;
}

uint32_t AsyncEvents::DropFromPipe(uint64_t element) {
  int unread = 0;
  if (ioctl(own_fd_, FIONREAD, &unread) != 0 || unread == 0) return 0;
  std::vector<Event> events(static_cast<size_t>(unread) / sizeof(Event));
  // Read all at once, so that another thread that reads meanwhile does not get
  // events out of order.
  const ssize_t bytes =
      read(own_fd_, events.data(), events.size() * sizeof(Event));
  if (bytes <= 0) return 0;  // the program has read them
  events.resize(static_cast<size_t>(bytes) / sizeof(Event));
  const size_t dropped = std::erase_if(
      events, [=](const Event& event) { return event.element == element; });
  // They fit, because they have just been read from the pipe.
  for (size_t i = 0; i < events.size(); i += kChunk)
    Write(&events[i], std::min(kChunk, events.size() - i));
  return static_cast<uint32_t>(dropped);
}

uint32_t AsyncEvents::Drop(uint64_t element) {
  std::lock_guard lock(mutex_);
  const int saved = errno;
  uint32_t dropped = DropFromPipe(element);
  auto place = places_.lower_bound(Key(element, 0));
  while (place != places_.end() && place->first.first == element) {
    waiting_.erase(place->second);
    place = places_.erase(place);
    ++dropped;
  }
  Move();
  errno = saved;
  return dropped;
}

void AsyncEvents::StartThread() {
  if (runs_) return;
  if (thread_.joinable()) thread_.join();  // it has ended
  auto thread = StartEngineThread("urnic-events", [this] { Run(); });
  if (!thread.has_value()) {
    control::DebugLog(
        "the thread for asynchronous events cannot start (limit of threads?): "
        "unread events wait for the next one");
    // Try once more: the program may have read meanwhile, which makes room.
    Move();
    return;
  }
  runs_ = true;
  thread_ = *std::move(thread);
}

void AsyncEvents::Run() {
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      Move();
      if (waiting_.empty()) {
        runs_ = false;
        return;
      }
    }
    pollfd fds[] = {{own_fd_, POLLOUT, 0}, {stop_fd_, POLLIN, 0}};
    (void)poll(fds, 2, /*timeout=*/-1);
    if (fds[1].revents != 0) return;
  }
}

}  // namespace urnic::provider
