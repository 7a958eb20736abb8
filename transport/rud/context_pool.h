#pragma once

// RDMA contexts (rCxt). A transfer has one context at its source and one at its
// target, each with the state of this transfer. Contexts are used again for the
// next transfer. An RNIC has one pool of them. A window acquires contexts, and
// its upper layer tells peers their numbers and keys (document C;
// docs/design/0014-rud.md says where we differ).
//
// Thread: the holder of the engine's token.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ras/metrics/rx_verdict.h"
#include "transport/base/check.h"
#include "transport/base/mutation.h"
#include "transport/wire/rud.h"

namespace urnic::rud {

// How peers and programs refer to a context.
struct ContextId {
  uint32_t number = 0;
  uint32_t key = 0;

  uint64_t value() const { return uint64_t{key} << 32 | number; }
  static ContextId Of(uint64_t value) {
    return {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)};
  }
  friend bool operator==(ContextId, ContextId) = default;
};
// A window of a peer, and a context there.
struct Party {
  uint32_t peer = 0;  // its number; 0: no peer
  uint32_t window = 0;
  ContextId context;

  // Whether a packet from this peer's window is from this party.
  bool IsFrom(uint32_t from_peer, uint32_t from_window) const {
    return peer == from_peer && window == from_window;
  }
};
inline ContextId IdOf(const wire::RudContext& context) {
  return {context.number.value(), context.key.value()};
}
inline wire::RudContext ToWire(ContextId id) {
  return {wire::Be<uint32_t>(id.number), wire::Be<uint32_t>(id.key)};
}

// A tid consists of a transfer and an attempt at it. A retransmission has a
// larger tid with the same transfer.
constexpr uint64_t TransferOf(uint64_t tid) { return tid >> 8; }

enum class ContextState : uint8_t {
  kIdle,       // has no record of a transfer with its tid
  kReceiving,  // target: packets are missing
  kReceived,   // target: complete
  kEnded,      // an access was refused: never complete
  kSending,    // source: answers a read; busy
  kAwaiting,   // source: no completion has arrived
};

struct alignas(64) Context {
  // A target usually needs only the first cache line.
  uint32_t window = 0;  // its owner; 0: free
  uint32_t key = 0;
  uint64_t tid = 0;
  uint64_t arrived = 0;  // packets, a bit for each
  uint32_t total = 0;    // bytes
  uint16_t stride = 0;
  uint8_t packets = 0;
  ContextState state = ContextState::kIdle;
  uint8_t notify = 0;
  uint8_t path = 0;  // of the last packet; for answers
  bool marked = false;
  bool owes_target = false;  // its owner has not been told yet
  bool is_own = false;       // its owner writes from it, or reads to it
  bool touched = false;      // in this burst
  bool was_asked = false;    // a read of its owner
  bool counted = false;      // `counter` has counted it
  Party other;               // the other end of the transfer
  uint32_t next = 0;         // in the free list, or in that of reads
  uint8_t counter = 0;       // of the owner's transfer; 0: none
  uint8_t arrivals = 0;      // counter of peers' transfers
  bool count_only = false;
  // `to_fifo`: a read, of the owner or of a peer, whose data goes to the FIFO
  // of the window that reads. `to_group`: a write to a group, whose members all
  // answer.
  bool to_fifo : 1 = false;
  bool to_group : 1 = false;

  // The window that told the source to send, but is neither source nor target.
  Party third;

  // At the source of a read. `target_pvo` is also used at its target.
  uint64_t source_pvo = 0;
  uint64_t target_pvo = 0;
  uint64_t unsent = 0;  // packets, a bit for each

  // REQUIRES: stride != 0, and `arrived` has enough bits for the packets.
  void BeginReceiving(uint32_t bytes, uint16_t packet_bytes, uint8_t wishes) {
    arrived = 0;
    total = bytes;
    stride = packet_bytes;
    packets = static_cast<uint8_t>(wire::RudPackets(bytes, packet_bytes));
    notify = wishes;
    state = ContextState::kReceiving;
    owes_target = (wishes & wire::kRudNotifyTarget) != 0;
    marked = false;
    was_asked = counted = to_fifo = to_group = false;
    counter = 0;
  }
};
static_assert(sizeof(Context) == 128);
static_assert(offsetof(Context, third) == 64);

// Peers cannot begin a transfer on it, because it has one of its owner, or
// answers a read.
inline bool IsBusy(const Context& context) {
  return context.is_own || context.state == ContextState::kSending;
}
// It is the target of a read of its owner that is not complete.
inline bool IsReading(const Context& context) {
  return context.is_own && context.state == ContextState::kReceiving;
}

class ContextPool {
 public:
  // Numbers begin at 0. Document C has 100 000 contexts.
  static constexpr uint32_t kMaxContexts = 1u << 17;

  // The storage outlives the pool. `seed`: random, so that keys from before a
  // restart are invalid. REQUIRES: 1 to kMaxContexts
  ContextPool(std::span<Context> storage, uint64_t seed);
  ContextPool(const ContextPool&) = delete;
  ContextPool& operator=(const ContextPool&) = delete;

  // Takes the context that has been free for longest. Nullopt: none is free.
  // REQUIRES: window != 0
  std::optional<ContextId> Acquire(uint32_t window);
  // REQUIRES: it has an owner, and Window::Forget() was called.
  void Release(uint32_t number);
  // After a recovery of the RNIC: frees all contexts, and makes the keys in
  // packets from before invalid. REQUIRES: Window::ForgetAll() was called for
  // all windows.
  void OnRecovery();

  // The context to which a packet for this window, or a command of its program,
  // refers. Null: `verdict` says why.
  Context* Find(ContextId id, uint32_t window, RxVerdict& verdict) {
    Context* const context =
        id.number < contexts_.size() ? &contexts_[id.number] : nullptr;
    if (context == nullptr || context->window != window) {
      verdict = RxVerdict::kRudUnknownContext;
      return nullptr;
    }
    MUTATION_SKIPS(rud_ignores_context_keys)
    if (context->key != id.key) {
      verdict = RxVerdict::kRudOldContext;
      return nullptr;
    }
    return context;
  }
  // The same without the reason.
  Context* Find(ContextId id, uint32_t window) {
    RxVerdict unused = RxVerdict::kAccept;
    return Find(id, window, unused);
  }
  Context& At(uint32_t number) { return contexts_[number]; }
  uint32_t NumberOf(const Context& context) const {
    return static_cast<uint32_t>(&context - contexts_.data());
  }
  uint32_t size() const { return static_cast<uint32_t>(contexts_.size()); }
  uint32_t free() const { return free_; }

 private:
  static constexpr uint32_t kUseBits = 24;

  void Append(uint32_t number);

  const std::span<Context> contexts_;
  uint32_t head_ = 0;
  uint32_t tail_ = 0;
  uint32_t free_ = 0;
  uint8_t recoveries_;
};

}  // namespace urnic::rud
