#pragma once

// A thread, or an event loop, of the program that sleeps until a window of RUD
// has something for it (document C, interrupts): a descriptor for poll(2), and
// whether it is ready to be told (transport/rud/wake.h).

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

  // An eventfd: readable when the handler was told.
  int fd() const { return fd_; }

  // Thread: one at a time.
  // From now on it may be told; that it was told before is forgotten. Then
  // Deliver() for each of its windows.
  void BecomeReady();
  // It is told nothing more.
  void BecomeBusy();

  // Tells it; not ready any more. Any thread that has taken `ready`.
  void Wake();

  rud::Claim<std::atomic> ready;

 private:
  explicit WakeHandler(int fd) : fd_(fd) {}

  const int fd_;
  // Since the descriptor was cleared. If it is not ready now, it was told.
  bool was_ready_ = false;
};

}  // namespace urnic
