#pragma once

// Wakes a thread or an event loop of the program, which sleeps until a window
// of RUD has something for it (document C, interrupts). It consists of a
// descriptor for poll(2) and the flag whether it may be woken
// (transport/rud/wake.h).

#include <atomic>
#include <cstdint>
#include <memory>

#include "transport/rud/wake.h"

namespace urnic {

class WakeHandler {
 public:
  // Null: no more descriptors; errno says why.
  static std::shared_ptr<WakeHandler> Make();
  ~WakeHandler();
  WakeHandler(const WakeHandler&) = delete;
  WakeHandler& operator=(const WakeHandler&) = delete;

  // An eventfd, readable after Wake().
  int fd() const { return fd_; }

  // Thread: one at a time. From now on it may be woken; earlier wake-ups are
  // forgotten. Then call Deliver() for each of its windows.
  void BecomeReady();
  // From now on it is not woken.
  void BecomeBusy();

  // Makes the descriptor readable. Any thread that has taken `ready`.
  void Wake();

  rud::Claim<std::atomic> ready;

 private:
  explicit WakeHandler(int fd) : fd_(fd) {}

  const int fd_;
  // BecomeReady() was called since the descriptor was last cleared. If `ready`
  // is not set now, Wake() was called.
  bool was_ready_ = false;
};

}  // namespace urnic
