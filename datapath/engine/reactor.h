#pragma once

// The runner of a program that has its own loop around poll(), select() or
// epoll. The loop decides when the engine runs, and the reactor tells the loop
// how long it may sleep. It needs no additional thread.
//
//   for (;;) {
//     while (reactor->RunOnce()) {
//     }
//     const Time due = reactor->PrepareToSleep();
//     poll() on reactor->fd() and the program's own, until `due`
//   }
//
// Only one thread at a time may call the functions below. Other threads may
// post and poll meanwhile, as always.

#include "absl/status/statusor.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/runner.h"
#include "datapath/engine/sleeper.h"

namespace urnic {

class Reactor final : public Runner {
 public:
  // Creates the runner of the engine, which owns it from then on.
  // RESOURCE_EXHAUSTED: no more descriptors.
  static absl::StatusOr<Reactor*> Start(Engine& engine);
  ~Reactor() override;

  // One bounded iteration of the engine. True: there was something to do, or
  // another thread is inside; there may be more to do.
  bool RunOnce();

  // Call this before the program sleeps. Returns the latest time for the next
  // RunOnce(). If that is now or in the past, there is work, and the program
  // must not sleep. On a port without wake-ups (Port::ArmWakeup) it is at most
  // 1 ms from now.
  Time PrepareToSleep();

  // After PrepareToSleep(), this descriptor becomes readable as soon as there
  // is something to do earlier: frames, or work from another thread. RunOnce()
  // makes it unreadable again. It is level-triggered; do not read from it. It
  // stays the same as long as the engine exists.
  int fd() const { return epoll_fd_; }

 private:
  Reactor(Engine& engine, int event_fd, int epoll_fd);

  void OnProgramPoll(Time, bool) override {}
  void BeforeRelease(bool work_left, Time next_deadline) override {
    sleeper_.BeforeRelease(work_left, next_deadline);
  }
  // Nothing to do: the loop runs whether or not other threads sleep.
  void HandOver() override {}

  Engine& engine_;
  Sleeper sleeper_;
  const int epoll_fd_;  // watches the sleeper's descriptor and the port's
  bool armed_ = false;  // token holder: the port raises wake-ups
};

}  // namespace urnic
