#include "datapath/engine/sleeper.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "verbs/libc/high_fd.h"

namespace urnic {

int Sleeper::MakeEventFd() {
  return urnic_move_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

Sleeper::~Sleeper() { close(event_fd_); }

void Sleeper::Wake() {
  const uint64_t one = 1;
  // If the counter is full, the write fails, but the descriptor is readable.
  [[maybe_unused]] const ssize_t written = write(event_fd_, &one, sizeof(one));
}

void Sleeper::Clear() {
  uint64_t count;
  [[maybe_unused]] const ssize_t n = read(event_fd_, &count, sizeof(count));
}

}  // namespace urnic
