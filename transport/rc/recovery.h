#pragma once

// What a queue pair needs only while packets are missing: a requester its list
// of gaps, and each half the packets that it holds. All of it belongs to the
// engine and is lent, so a queue pair without losses has three null pointers.
//
// Thread: the holder of the engine's token.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "transport/base/check.h"
#include "transport/base/psn.h"
#include "transport/base/time.h"
#include "transport/rc/gaps.h"
#include "transport/rc/held_packets.h"

namespace urnic::rc {

// Of a requester.
struct Recovery {
  explicit Recovery(HeldPool* pool) : responses(pool) {}

  Gaps gaps;
  HeldPackets responses;  // behind a missing one
  // If nothing that is missing arrives before, the first gap is sent again,
  // once; then the queue pair goes back.
  Time repair_until = Time::Infinite();
  bool tried_again = false;
};

// Places for objects of one type, in memory that is resident only where it was
// used.
template <typename T>
class Places {
 public:
  explicit Places(uint32_t count)
      : memory_(std::make_unique_for_overwrite<Place[]>(count)), size_(count) {}
  ~Places() { URNIC_CHECK(in_use_ == 0); }
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  // Null: all are in use.
  template <typename... Args>
  T* Take(Args&&... args) {
    Place* place = free_;
    if (place != nullptr) {
      free_ = place->next;
    } else if (ever_used_ != size_) {
      place = &memory_[ever_used_++];
    } else {
      return nullptr;
    }
    ++in_use_;
    return std::construct_at(reinterpret_cast<T*>(place->bytes),
                             std::forward<Args>(args)...);
  }
  void Return(T* object) {
    object->~T();
    auto* const place = reinterpret_cast<Place*>(object);
    place->next = std::exchange(free_, place);
    --in_use_;
  }

 private:
  union Place {
    Place* next;
    alignas(T) std::byte bytes[sizeof(T)];
  };

  const std::unique_ptr<Place[]> memory_;
  const uint32_t size_;
  uint32_t ever_used_ = 0;
  uint32_t in_use_ = 0;
  Place* free_ = nullptr;
};

struct RecoveryLimits {
  uint32_t held_packets = 8192;
  uint32_t responders = 65536;  // that hold packets
  uint32_t requesters = 4096;   // with gaps
};

// Of an engine.
class RecoveryPool {
 public:
  // `frames` outlives the pool.
  RecoveryPool(const RecoveryLimits& limits, FrameKeeper* frames)
      : packets_(limits.held_packets, frames),
        lists_(limits.responders),
        recoveries_(limits.requesters) {}

  // Null: no more are lent. The queue pair then does what a peer without
  // selective repeat does.
  HeldPackets* TakeList() { return lists_.Take(&packets_); }
  void Return(HeldPackets* list) { lists_.Return(list); }
  Recovery* TakeRecovery() { return recoveries_.Take(&packets_); }
  void Return(Recovery* recovery) { recoveries_.Return(recovery); }

  // For the bitmap of an acknowledgement, until its frame is built.
  std::span<uint8_t> bitmap() { return bitmap_; }

 private:
  HeldPool packets_;
  Places<HeldPackets> lists_;
  Places<Recovery> recoveries_;
  uint8_t bitmap_[kBitmapMax];
};

}  // namespace urnic::rc
