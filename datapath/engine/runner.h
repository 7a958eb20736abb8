#pragma once

// Who runs the engine while no thread of the program is inside of it, and when
// (docs/design/0002-the-token.md). An engine has one runner at most; without,
// it stands still between the program's calls.
//
//   HelperThread  a guest's: the program polls, and when it does not, a thread
//   Reactor       the program's own loop, which sleeps in poll() or epoll
//   virtual time  a simulator's
//
// A runner runs the engine in turns (Engine::TakeTurn), and is told here what
// the program does. These are at most two virtual calls for each doorbell or
// poll, and never one for a packet.

#include <atomic>

#include "transport/base/time.h"

namespace urnic {

class Runner {
 public:
  // Stops running the engine, and waits until it has. Not under the token.
  virtual ~Runner() = default;
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Token holder: a thread of the program polls, at `now`.
  virtual void OnProgramPoll(Time now) = 0;
  // Token holder, but in a turn of the runner's own, before it releases: there
  // is something to do now (`work_left`), or not before `next_deadline`.
  virtual void BeforeRelease(bool work_left, Time next_deadline) = 0;
  // Any thread: the program is about to sleep, and polls no more.
  virtual void HandOver() = 0;

  // The runner takes turns: nothing may wait for the program's next poll. Any
  // thread; a moment old without the token.
  bool active() const { return active_.load(std::memory_order_acquire); }

 protected:
  explicit Runner(bool active) : active_(active) {}
  void SetActive(bool active) {
    active_.store(active, std::memory_order_release);
  }

 private:
  std::atomic<bool> active_;
};

}  // namespace urnic
