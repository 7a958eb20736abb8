#pragma once

// The asynchronous events of one open device: a pipe that libibverbs reads as
// if it were the kernel's, 16 bytes per event. The pipe is short, so that
// Drop() can quickly remove events from it. Further events wait here. A thread
// runs while events wait, and moves them to the pipe, in order, when the
// program has read.

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

struct ib_uverbs_async_event_desc;

namespace urnic::provider {

class AsyncEvents {
 public:
  AsyncEvents() = default;
  // REQUIRES: no Push() or Drop() runs.
  ~AsyncEvents();
  AsyncEvents(const AsyncEvents&) = delete;
  AsyncEvents& operator=(const AsyncEvents&) = delete;

  // Makes the pipe. 0 or an errno.
  int Open();

  // The read end, for ibv_context.async_fd. The caller closes it.
  int read_fd() const { return read_fd_; }

  // Adds an event about `element` (the address of an object, or a port). Any
  // thread; never waits for the program. False: the same event waits already,
  // and moves to the end. So at most one event of each type waits for an
  // object.
  bool Push(uint64_t element, uint32_t type);

  // Removes the unread events about `element`, and returns their number. Any
  // thread. REQUIRES: no Push() for it runs.
  uint32_t Drop(uint64_t element);

 private:
  using Event = ib_uverbs_async_event_desc;
  // Element and type.
  using Key = std::pair<uint64_t, uint32_t>;

  // Writes all events or none; at most PIPE_BUF bytes. REQUIRES: mutex_ is
  // held.
  bool Write(const Event* events, size_t count);
  // Removes the events about `element` from the pipe. REQUIRES: mutex_ is held.
  uint32_t DropFromPipe(uint64_t element);
  // Moves waiting events into the pipe, as many as fit. REQUIRES: mutex_ is
  // held.
  void Move();
  // REQUIRES: mutex_ is held.
  void StartThread();
  // The thread, which runs while events wait.
  void Run();

  int read_fd_ = -1;
  // A second descriptor for both ends of the pipe, which is always
  // non-blocking, whatever the program does to its own.
  int own_fd_ = -1;
  int stop_fd_ = -1;  // the thread ends when this can be read

  std::mutex mutex_;  // protects our access to the pipe, and the members below
  uint64_t next_place_ = 0;
  std::map<uint64_t, Key> waiting_;  // by place in the order
  std::map<Key, uint64_t> places_;   // of waiting events
  bool runs_ = false;
  std::thread thread_;
};

}  // namespace urnic::provider
