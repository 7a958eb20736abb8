#pragma once

// A runner's sleep: until a time that it has planned, unless somebody leaves
// work or an earlier deadline behind, or calls it.

#include "transport/base/time.h"

namespace urnic {

class Sleeper {
 public:
  // Keeps `event_fd`, an eventfd without blocking, and closes it.
  explicit Sleeper(int event_fd) : event_fd_(event_fd) {}
  ~Sleeper();
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  // An eventfd for the constructor, above the program's numbers; negative, and
  // errno: there is none.
  static int MakeEventFd();

  // --- Token holder --------------------------------------------------------

  // The runner sleeps from now on, until `wake` at the latest.
  void FallAsleep(Time wake) {
    planned_wake_ = wake;
    asleep_ = true;
    woken_ = false;
  }
  void Awake() { asleep_ = woken_ = false; }
  bool asleep() const { return asleep_; }
  // As Runner::BeforeRelease(): wakes who would sleep past what is to be done.
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
  // fd() is no longer readable. The runner's.
  void Clear();

 private:
  const int event_fd_;
  bool asleep_ = false;  // or about to be
  bool woken_ = false;
  Time planned_wake_;
};

}  // namespace urnic
