#pragma once

// The runner of a program that has a loop of its own, around poll(), select()
// or epoll: it runs the engine when the loop says so, and says how long the
// loop may sleep. No thread of ours is involved.
//
//   for (;;) {
//     while (reactor->RunOnce()) {
//     }
//     const Time due = reactor->PrepareToSleep();
//     poll() on reactor->fd() and the program's own, until `due`
//   }
//
// The functions below are for one thread at a time. Other threads may post and
// poll meanwhile, as always.

#include "absl/status/statusor.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/runner.h"
#include "datapath/engine/sleeper.h"

namespace urnic {

class Reactor final : public Runner {
 public:
  // The engine's runner from now on, and the engine's own: it goes with it.
  // RESOURCE_EXHAUSTED: no more descriptors.
  static absl::StatusOr<Reactor*> Start(Engine& engine);
  ~Reactor() override;

  // One bounded iteration of the engine. True: there was something to do, or
  // another thread is at it, and perhaps more is to be done.
  bool RunOnce();

  // The program is about to sleep. The result is when RunOnce() is due at the
  // latest; now, or earlier: there is work, and the program must not sleep. On
  // a port that wakes nobody (Port::ArmWakeup) that is 1 ms from now at most.
  Time PrepareToSleep();

  // Readable, after PrepareToSleep(), as soon as something is to be done
  // earlier: frames, or what another thread has left. RunOnce() ends that.
  // Level-triggered; not to be read. The same as long as the engine lives.
  int fd() const { return epoll_fd_; }

 private:
  Reactor(Engine& engine, int event_fd, int epoll_fd);

  void OnProgramPoll(Time) override {}
  void BeforeRelease(bool work_left, Time next_deadline) override {
    sleeper_.BeforeRelease(work_left, next_deadline);
  }
  // Whoever sleeps there does not keep the loop from running.
  void HandOver() override {}

  Engine& engine_;
  Sleeper sleeper_;
  const int epoll_fd_;  // of the sleeper's and the port's
  bool armed_ = false;  // token holder: the port raises wake-ups
};

}  // namespace urnic
