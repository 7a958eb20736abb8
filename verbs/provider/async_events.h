#pragma once

// The asynchronous events of one open device: a pipe that libibverbs reads as
// if it were the kernel's, 16 bytes per event.

#include <atomic>
#include <cstdint>
#include <mutex>

namespace urnic::provider {

class AsyncEvents {
 public:
  AsyncEvents() = default;
  ~AsyncEvents();
  AsyncEvents(const AsyncEvents&) = delete;
  AsyncEvents& operator=(const AsyncEvents&) = delete;

  // Makes the pipe. 0 or an errno.
  int Open();

  // The read end, for ibv_context.async_fd. The caller closes it.
  int read_fd() const { return read_fd_; }

  // Adds an event about `element` (the address of an object, or a port). Any
  // thread; never waits. False: there is no room, because 65536 events have not
  // been read.
  bool Push(uint64_t element, uint32_t type);

  // Removes the events about `element` that have not been read, and returns how
  // many. REQUIRES: no Push() for it meanwhile.
  uint32_t Drop(uint64_t element);

 private:
  bool Write(const void* events, size_t bytes);

  int read_fd_ = -1;
  // Both ends again, always non-blocking, whatever the program does to its own.
  int own_fd_ = -1;
  std::mutex drop_mutex_;
};

}  // namespace urnic::provider
