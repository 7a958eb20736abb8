#pragma once

// Interrupts (document C): who is told that a window has entries for a program
// that sleeps. A handler is ready, or it is not; whoever is told is not ready
// any more. Of the handlers of a window, the first ready one is told; if none
// is ready, the next that becomes ready.
//
//     RNIC:     publish entries; pending = 1; Deliver()
//     handler:  ready = 1; Deliver(), for each of its windows; look at the
//               FIFOs once more; sleep
//     Deliver:  is a handler ready? pending 1 -> 0? is an entry unread?
//               ready 1 -> 0? then tell it
//
// All steps are sequentially consistent, so of the RNIC and the handler at
// least one sees the other. Whoever has taken `pending`, and finds that another
// window was faster to take the handler, puts it back and looks for ready
// handlers again: one that became ready meanwhile has not seen it.
// wake_test.cc enumerates the interleavings of exactly this code, with its own
// `Atomic`.

#include <cstdint>

namespace urnic::rud {

// A word that is set by some threads, and taken by one of others.
template <template <typename> class Atomic>
class Claim {
 public:
  void Set() { value_.exchange(1); }
  bool IsSet() const { return value_.load() != 0; }
  // True: it was set, and this thread has it.
  bool Take() { return value_.exchange(0) != 0; }

 private:
  Atomic<uint32_t> value_{0};
};

// A handler has `ready`, a Claim, and `Wake()`. `handlers`: pointers to those
// of the window. Null: none is ready.
template <typename Handlers>
auto FirstReady(const Handlers& handlers) -> decltype(&**handlers.begin()) {
  for (const auto& handler : handlers) {
    if (handler->ready.IsSet()) return &*handler;
  }
  return nullptr;
}

// Tells a ready handler of the window, if it is due. `pending`: a Claim.
// `has_unread()`: the FIFO has entries that the program has not returned; what
// it has seen without a wake-up needs none. Any thread.
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
