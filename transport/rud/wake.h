#pragma once

// Interrupts (document C): how the RNIC wakes a sleeping program when a window
// has entries for it. A program sleeps on a handler. A handler is ready or not;
// waking it makes it not ready. A window wakes the first of its handlers that
// is ready. If none is ready, it wakes the next one that becomes ready.
//
//     RNIC:     publish entries; pending = 1; Deliver()
//     handler:  ready = 1; Deliver(), for each of its windows; look at the
//               FIFOs once more; sleep
//     Deliver:  is a handler ready? pending 1 -> 0? is an entry unread?
//               ready 1 -> 0? then wake it
//
// All steps are sequentially consistent, so at least one of the RNIC and the
// handler sees what the other has done. If a thread has taken `pending` and
// finds that another window has taken the handler meanwhile, it sets `pending`
// again and looks once more for a ready handler: one that became ready in
// between did not see `pending`. wake_test.cc enumerates the interleavings of
// exactly this code, with an `Atomic` of its own.

#include <cstdint>

namespace urnic::rud {

// A flag that some threads set. Of the threads that try to take it, one
// succeeds.
template <template <typename> class Atomic>
class Claim {
 public:
  void Set() { value_.exchange(1); }
  bool IsSet() const { return value_.load() != 0; }
  // True: it was set, and this thread has taken it.
  bool Take() { return value_.exchange(0) != 0; }

 private:
  Atomic<uint32_t> value_{0};
};

// The first ready handler; null: none is ready. `handlers`: pointers to the
// handlers of a window, each with a Claim `ready` and a function `Wake()`.
template <typename Handlers>
auto FirstReady(const Handlers& handlers) -> decltype(&**handlers.begin()) {
  for (const auto& handler : handlers) {
    if (handler->ready.IsSet()) return &*handler;
  }
  return nullptr;
}

// Wakes a ready handler if the window is `pending`, a Claim. `has_unread()`:
// the FIFO has entries that the program has not returned. If it has none, the
// program has already seen them, and is not woken. Any thread.
template <typename PendingT, typename Handlers, typename HasUnread>
void Deliver(PendingT& pending, const Handlers& handlers,
             HasUnread&& has_unread) {
  for (;;) {
    auto* const handler = FirstReady(handlers);
    if (handler == nullptr || !pending.Take() || !has_unread()) return;
    if (handler->ready.Take()) return handler->Wake();
    pending.Set();
  }
}

}  // namespace urnic::rud
