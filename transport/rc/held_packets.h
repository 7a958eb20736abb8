#pragma once

// Packets of one half of a queue pair that have arrived behind a gap. Their
// frames are kept, in the order of PSNs, until the packets before them have
// arrived. The list does not interpret the packets. The owner tells it which
// PSNs a packet covers (a read request: those of its responses), and checks a
// packet when it executes it.
//
// The lists of all queue pairs of an engine share one pool. Nothing is
// allocated after the pool's construction.
//
// Thread: the holder of the engine's token.

#include <cstdint>
#include <memory>
#include <span>

#include "transport/base/frame_keeper.h"
#include "transport/base/psn.h"
#include "transport/work/types.h"

namespace urnic::rc {

// A packet is held only if it ends within kHoldSpan PSNs of the first missing
// one, and begins at most kGapMax after the last held one. Held packets are
// executed later, so without these limits an attacker who does not know the
// PSNs would need few guesses.
inline constexpr uint32_t kHoldSpan = 2048;
inline constexpr int32_t kGapMax = 64;

// The longest bitmap in bytes: it covers all PSNs that may be held.
inline constexpr uint32_t kBitmapMax = kHoldSpan / 8;

class HeldPool {
 public:
  // Room for `packets`; `frames` outlives the pool.
  HeldPool(uint32_t packets, FrameKeeper* frames);
  // REQUIRES: all lists are empty.
  ~HeldPool();
  HeldPool(const HeldPool&) = delete;
  HeldPool& operator=(const HeldPool&) = delete;

 private:
  friend class HeldPackets;
  static constexpr uint32_t kNone = UINT32_MAX;

  // The data from which a view of the frame (RxPacket) is made again.
  struct Packet {
    const wire::Bth* bth;
    void* buffer;
    uint32_t payload_bytes;
    Psn psn;
    uint32_t psns;
    uint32_t frame;  // its number in custody
    uint32_t next;
  };

  uint32_t Take();
  void Return(uint32_t index);

  FrameKeeper* const frames_;
  // Memory that was never used is not resident.
  const std::unique_ptr<Packet[]> packets_;
  const uint32_t size_;
  uint32_t ever_used_ = 0;
  uint32_t in_use_ = 0;
  uint32_t free_ = kNone;
};

class HeldPackets {
 public:
  enum class Result : uint8_t {
    kHeld,
    kDuplicate,  // the same packet is held already
    kConflict,   // another packet is held for a PSN: both are dropped
    kRefused,    // too far ahead, or no room
  };

  // The pool outlives the list.
  explicit HeldPackets(HeldPool* pool) : pool_(pool) {}
  ~HeldPackets() {
    Drop();
    ReleaseTaken();
  }
  HeldPackets(const HeldPackets&) = delete;
  HeldPackets& operator=(const HeldPackets&) = delete;

  bool empty() const { return head_ == kNone; }
  // Nothing is held and nothing was taken.
  bool idle() const { return empty() && taken_ == kNone; }
  // REQUIRES for both: not empty. The first PSN, and the one after the last.
  Psn begin() const { return At(head_).psn; }
  Psn end() const { return EndOf(At(tail_)); }

  // Keeps the packet's frame. `missing`: the first PSN that has not arrived.
  // `psns`: how many PSNs the packet stands for, at least 1.
  Result Insert(Psn missing, const RxPacket& packet, uint32_t psns);

  // Takes packets from `next` on that follow each other without a gap; returns
  // how many. Their frames are kept until ReleaseTaken(). Drops packets before
  // `next`. Ends after an atomic, because there is one place for its values
  // until they are used.
  uint32_t Take(Psn next, std::span<RxPacket> out);
  void ReleaseTaken();

  // Drops the packets before `next`, which have been executed.
  void DropBefore(Psn next);
  // Drops all held packets. Taken packets are kept until ReleaseTaken().
  void Drop();

  // Writes a bitmap: bit i is set if the PSN `missing` + 1 + i is held. Returns
  // its length in bytes, a multiple of 4, up to out.size(). REQUIRES: not
  // empty, and `missing` is not held.
  uint32_t WriteBitmap(Psn missing, std::span<uint8_t> out) const;

 private:
  static constexpr uint32_t kNone = HeldPool::kNone;
  using Packet = HeldPool::Packet;

  Packet& At(uint32_t index) const { return pool_->packets_[index]; }
  static Psn EndOf(const Packet& p) {
    return p.psn + static_cast<int32_t>(p.psns);
  }
  // Unlinks the packet after `before`, and drops it.
  void DropAfter(uint32_t before);
  void Release(uint32_t index);

  HeldPool* const pool_;
  FrameHolder holder_{.limit = kHoldSpan};
  uint32_t head_ = kNone;
  uint32_t tail_ = kNone;
  uint32_t taken_ = kNone;
};

// The verdict on the packet.
constexpr RxVerdict VerdictOf(HeldPackets::Result result, RxVerdict refused) {
  switch (result) {
    case HeldPackets::Result::kHeld:
      return RxVerdict::kHeld;
    case HeldPackets::Result::kDuplicate:
      return RxVerdict::kHeldTwice;
    case HeldPackets::Result::kConflict:
      return RxVerdict::kHeldConflict;
    default:
      return refused;
  }
}

}  // namespace urnic::rc
