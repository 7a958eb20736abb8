#pragma once

// The sleep of a runner. It ends at a planned time, or earlier if another
// thread leaves work or an earlier deadline, or calls Wake().

#include "transport/base/time.h"

namespace urnic {

class Sleeper {
 public:
  // Owns `event_fd`, a non-blocking eventfd, and closes it.
  explicit Sleeper(int event_fd) : event_fd_(event_fd) {}
  ~Sleeper();
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  // An eventfd for the constructor, above the program's descriptor numbers.
  // Negative, with errno set, if there is none.
  static int MakeEventFd();

  // --- Token holder --------------------------------------------------------

  // The runner starts to sleep, until `wake` at the latest.
  void FallAsleep(Time wake) {
    planned_wake_ = wake;
    asleep_ = true;
    woken_ = false;
  }
  void Awake() { asleep_ = woken_ = false; }
  bool asleep() const { return asleep_; }
  // As Runner::BeforeRelease(): wakes the runner if it would sleep too long.
  void BeforeRelease(bool work_left, Time next_deadline) {
    if (!asleep_ || woken_) return;
    if (!work_left && next_deadline >= planned_wake_) return;
    woken_ = true;
    Wake();
  }

  // --- Any thread ----------------------------------------------------------

  // Makes fd() readable.
  void Wake();
  int fd() const { return event_fd_; }
  // Makes fd() no longer readable. Only the runner calls this.
  void Clear();

 private:
  const int event_fd_;
  bool asleep_ = false;  // or about to sleep
  bool woken_ = false;
  Time planned_wake_;
};

}  // namespace urnic
