#pragma once

// RDMA contexts (rCxt): the state of one transfer each, at its source and at
// its target. An RNIC has one pool. A window acquires contexts, and its upper
// layer gives their numbers and keys to its peers (document C; where we differ:
// docs/design/0014-rud.md).
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

// A context as peers name it.
struct ContextId {
  uint32_t number = 0;
  uint32_t key = 0;

  uint64_t value() const { return uint64_t{key} << 32 | number; }
  static ContextId Of(uint64_t value) {
    return {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)};
  }
  friend bool operator==(ContextId, ContextId) = default;
};
// A window of a peer, and a context of it.
struct Party {
  uint32_t peer = 0;  // its number; 0: nobody
  uint32_t window = 0;
  ContextId context;

  // Whether a packet of this peer's window is from here.
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

// A tid is a transfer and an attempt: a larger one of the same transfer is
// another attempt at it.
constexpr uint64_t TransferOf(uint64_t tid) { return tid >> 8; }

enum class ContextState : uint8_t {
  kIdle,       // nothing is known of the transfer of its tid
  kReceiving,  // some packets are missing
  kReceived,   // complete
  kEnded,      // by a refused access: it will never be complete
  kSending,    // for a read request: busy
  kAwaiting,   // sent; the completion has not come
};

struct alignas(64) Context {
  // The first line is that of the target.
  uint32_t window = 0;  // of its owner; 0: free
  uint32_t key = 0;
  uint64_t tid = 0;
  uint64_t arrived = 0;  // a bit for each packet
  uint32_t total = 0;    // bytes
  uint16_t stride = 0;
  uint8_t packets = 0;
  ContextState state = ContextState::kIdle;
  uint8_t notify = 0;
  uint8_t path = 0;  // of the last packet
  bool marked = false;
  bool owes_target = false;  // was not told: its FIFO was full
  bool is_own = false;       // of its owner: a write from here, or a read
  bool touched = false;      // by this burst
  bool was_asked = false;    // the transfer is a read of its owner
  bool counted = false;      // the completion of the owner's transfer
  Party other;               // the other end
  uint32_t next = 0;         // in the list of free ones, or of those that send
  uint8_t counter = 0;       // of the owner's transfer
  uint8_t arrivals = 0;      // the counter of transfers of peers
  bool count_only = false;
  // The packets of the owner's read, or of the one that is answered, go to the
  // FIFO of who reads; of a write: to a group, whose members all answer.
  bool to_fifo : 1 = false;
  bool to_group : 1 = false;

  // The window that is neither source nor target, but told the source to send.
  Party third;

  // Of the source of a read; `target_pvo` also of its target.
  uint64_t source_pvo = 0;
  uint64_t target_pvo = 0;
  uint64_t unsent = 0;  // a bit for each packet

  // REQUIRES: stride != 0, and the packets have bits in `arrived`.
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

// Peers can begin nothing with it: it has a transfer of its owner, or sends the
// answer of a read.
inline bool IsBusy(const Context& context) {
  return context.is_own || context.state == ContextState::kSending;
}
// It is the target of a read of its owner.
inline bool IsReading(const Context& context) {
  return context.is_own && context.state == ContextState::kReceiving;
}

class ContextPool {
 public:
  // Contexts are numbered from 0; document C has 100 000.
  static constexpr uint32_t kMaxContexts = 1u << 17;

  // The storage outlives the pool. `seed`: random, so that keys of another
  // incarnation are not valid. REQUIRES: 1 to kMaxContexts
  ContextPool(std::span<Context> storage, uint64_t seed);
  ContextPool(const ContextPool&) = delete;
  ContextPool& operator=(const ContextPool&) = delete;

  // The one that has been free for longest. None is free: nullopt.
  // REQUIRES: window != 0
  std::optional<ContextId> Acquire(uint32_t window);
  // REQUIRES: it has an owner, whose window has forgotten it.
  void Release(uint32_t number);
  // After a recovery of the RNIC: all contexts are free, and no packet from
  // before is for any of them. REQUIRES: all windows have forgotten theirs.
  void OnRecovery();

  // The context that a packet for this window, or its program, names. Null: the
  // verdict says why not.
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
  // The same for a caller to whom the reason does not matter.
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
