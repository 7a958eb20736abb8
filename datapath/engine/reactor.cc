#include "datapath/engine/reactor.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "ras/errors/refusal.h"
#include "verbs/libc/high_fd.h"

namespace urnic {

namespace {

// The longest sleep on a port without wake-ups.
constexpr Duration kSleepPolled = Duration::Milliseconds(1);

bool Watch(int epoll_fd, int fd) {
  epoll_event event = {};
  event.events = EPOLLIN;
  return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

absl::StatusOr<Reactor*> Reactor::Start(Engine& engine) {
  const int event_fd = Sleeper::MakeEventFd();
  const int epoll_fd = urnic_move_fd_high(epoll_create1(EPOLL_CLOEXEC));
  const int port_fd = engine.port().wait_fd();
  if (event_fd < 0 || epoll_fd < 0 || !Watch(epoll_fd, event_fd) ||
      (port_fd >= 0 && !Watch(epoll_fd, port_fd))) {
    const int error = errno;
    if (event_fd >= 0) close(event_fd);
    if (epoll_fd >= 0) close(epoll_fd);
    return Refusal(
        ErrorCode::kNoDescriptors,
        absl::StrCat("no descriptor to sleep on: ", strerror(error)));
  }
  std::unique_ptr<Reactor> reactor(new Reactor(engine, event_fd, epoll_fd));
  Reactor* const started = reactor.get();
  engine.RunBy(std::move(reactor));
  return started;
}

Reactor::Reactor(Engine& engine, int event_fd, int epoll_fd)
    : Runner(/*active=*/true),
      engine_(engine),
      sleeper_(event_fd),
      epoll_fd_(epoll_fd) {}

Reactor::~Reactor() { close(epoll_fd_); }

bool Reactor::RunOnce() {
  bool worked = false;
  const bool mine = engine_.TakeTurn([&](Engine::Turn& turn) {
    if (sleeper_.asleep()) sleeper_.Clear();
    sleeper_.Awake();
    if (std::exchange(armed_, false)) engine_.port().DisarmWakeup();
    worked |= turn.Iterate();
  });
  return worked || !mine;
}

Time Reactor::PrepareToSleep() {
  Time due = engine_.Now();
  engine_.TakeTurn([&](Engine::Turn& turn) {
    armed_ = engine_.port().ArmWakeup();
    // Frames that arrived before the port was armed raise no wake-up: look once
    // more.
    const bool worked = turn.Iterate();
    const Time now = due = engine_.Now();
    if (worked || (turn.WorkLeft() && !turn.PortBlocked())) return;
    // If the port is blocked: no wake-up says that the peer fetches again.
    const bool can_be_woken =
        (armed_ || engine_.port().wait_fd() < 0) && !turn.PortBlocked();
    due = std::min(can_be_woken ? Time::Infinite() : now + kSleepPolled,
                   turn.NextDeadline());
    sleeper_.FallAsleep(due);
  });
  return due;
}

}  // namespace urnic
