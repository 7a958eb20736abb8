#pragma once

// What a queue pair needs only while packets are missing: the requester's list
// of gaps, and the packets that each half holds. They belong to the engine and
// are lent, so a queue pair without losses has three null pointers. The
// engine's queue pairs also share counters of rare events here.
//
// Thread: the holder of the engine's token.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "ras/history/history.h"
#include "ras/metrics/counters.h"
#include "transport/base/check.h"
#include "transport/base/psn.h"
#include "transport/base/time.h"
#include "transport/rc/gaps.h"
#include "transport/rc/held_packets.h"

namespace urnic::rc {

// The recovery state of a requester.
struct Recovery {
  explicit Recovery(HeldPool* pool) : responses(pool) {}

  Gaps gaps;
  HeldPackets responses;  // behind a missing one
  // If no missing packet arrives until then, the first gap is resent, once.
  // Afterwards the queue pair goes back.
  Time repair_until = Time::Infinite();
  bool tried_again = false;
};

// Places for objects of one type. Only memory that was used is resident.
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

// Limits with which nothing is held or lent.
inline constexpr RecoveryLimits kNoRecovery = {
    .held_packets = 0, .responders = 0, .requesters = 0};

// What the RC queue pairs of an engine share.
class RecoveryPool {
 public:
  // `frames`, `counters` and `history` outlive the pool. `frames` may be null
  // if `limits.held_packets` is 0, and so may `history`.
  RecoveryPool(const RecoveryLimits& limits, FrameKeeper* frames,
               RoceCounters* counters, History* history = nullptr)
      : counters_(*counters),
        history_(history),
        packets_(limits.held_packets, frames),
        lists_(limits.responders),
        recoveries_(limits.requesters) {}

  // Null: all are lent. The queue pair then behaves like one without selective
  // repeat.
  HeldPackets* TakeList() { return lists_.Take(&packets_); }
  void Return(HeldPackets* list) { lists_.Return(list); }
  Recovery* TakeRecovery() { return recoveries_.Take(&packets_); }
  void Return(Recovery* recovery) { recoveries_.Return(recovery); }

  // These counters are the engine's, because counters of rare events would make
  // each queue pair two cache lines longer.
  RoceCounters& counters() { return counters_; }

  // Records for people that something rare happened to this queue pair.
  void Note(HistoryEvent event, uint32_t qpn, uint32_t a, uint32_t b) {
    if (history_ != nullptr) history_->Add(event, qpn, a, b);
  }

  // For the bitmap of an acknowledgement, until its frame is built.
  std::span<uint8_t> bitmap() { return bitmap_; }

 private:
  RoceCounters& counters_;
  History* const history_;
  HeldPool packets_;
  Places<HeldPackets> lists_;
  Places<Recovery> recoveries_;
  uint8_t bitmap_[kBitmapMax];
};

}  // namespace urnic::rc
