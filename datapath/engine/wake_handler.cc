#include "datapath/engine/wake_handler.h"

#include <sys/eventfd.h>
#include <unistd.h>

namespace urnic {

std::shared_ptr<WakeHandler> WakeHandler::Make() {
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) return nullptr;
  return std::shared_ptr<WakeHandler>(new WakeHandler(fd));
}

WakeHandler::~WakeHandler() { close(fd_); }

void WakeHandler::BecomeReady() {
  // If Wake() was called, usually the thread has slept until the descriptor was
  // readable. If it has not, the descriptor may become readable after this
  // read: then the thread wakes once more, which is harmless.
  if (was_ready_ && !ready.IsSet()) {
    uint64_t count;
    [[maybe_unused]] const ssize_t n = read(fd_, &count, sizeof(count));
  }
  was_ready_ = true;
  ready.Set();
}

void WakeHandler::BecomeBusy() {
  // If Wake() was called, the next BecomeReady() has to read the descriptor.
  if (ready.Take()) was_ready_ = false;
}

void WakeHandler::Wake() {
  const uint64_t one = 1;
  // If the counter is full, the write fails, but the descriptor is readable.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof(one));
}

}  // namespace urnic
