#pragma once

// A runner runs the engine while no thread of the program does
// (docs/design/0002-the-token.md). An engine has at most one runner. Without a
// runner it stands still between the program's calls.
//
//   HelperThread  a thread that takes over when the program does not poll
//   Reactor       the program's own loop, which sleeps in poll() or epoll
//   virtual time  a simulator's
//
// A runner runs the engine in turns (Engine::TakeTurn). The functions below
// tell it what the program does. That costs at most two virtual calls for each
// doorbell or poll, and none per packet.

#include <atomic>

#include "transport/base/time.h"

namespace urnic {

class Runner {
 public:
  // Stops running the engine, and waits until it has stopped. Call it without
  // the token.
  virtual ~Runner() = default;
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Token holder: a thread of the program polls at the time `now`. `leaves`: it
  // has found completions and no data to answer, so what it does next is
  // unknown.
  virtual void OnProgramPoll(Time now, bool leaves) = 0;
  // Token holder, before it releases the token, except at the end of the
  // runner's own turn. `work_left`: there is something to do now. Otherwise
  // there is nothing to do before `next_deadline`.
  virtual void BeforeRelease(bool work_left, Time next_deadline) = 0;
  // Any thread: the program is about to sleep and stops polling.
  virtual void HandOver() = 0;

  // True while the runner takes turns: the program may not poll again, so no
  // work may wait for its next poll. Any thread; without the token the value
  // may be slightly old.
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
