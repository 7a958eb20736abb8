#pragma once

// A registration. All entries of a cache are one array, and an entry that has
// ended is used again. So a thread that looks without a lock may see an entry
// that is another by now: it takes a use, and then looks again at what it has.
// What is written only under the lock, and while the entry is not usable, is
// atomic for these readers.

#include <atomic>
#include <cstdint>

#include "verbs/regcache/range.h"
#include "verbs/regcache/use_word.h"

struct ibv_mr;

namespace urnic::regcache {

struct alignas(64) Entry {
  UseWord<std::atomic<uint64_t>> word;
  std::atomic<uint64_t> begin{0};
  std::atomic<uint64_t> end{0};
  std::atomic<ibv_mr*> mr{nullptr};
  std::atomic<uint32_t> access{0};

  // The rest only under the lock.
  uint32_t idle_ticks = 0;
  uint64_t gets_seen = 0;  // of word.gets()
  Entry* next = nullptr;   // in the list of free ones, or of ended ones

  Range range() const {
    return {begin.load(std::memory_order_relaxed),
            end.load(std::memory_order_relaxed)};
  }
  void set_range(Range range) {
    begin.store(range.begin, std::memory_order_relaxed);
    end.store(range.end, std::memory_order_relaxed);
  }
  // Whether it gives what a use needs.
  bool Serves(Range buffer, uint32_t wanted) const;
};

static_assert(sizeof(Entry) == 64);

inline void Push(Entry*& list, Entry* entry) {
  entry->next = list;
  list = entry;
}

inline Entry* Pop(Entry*& list) {
  Entry* entry = list;
  if (entry != nullptr) list = entry->next;
  return entry;
}

// IBV_ACCESS_LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC, MW_BIND:
// more of these does no harm. Other bits say how memory is accessed, and must
// be the same.
constexpr uint32_t kRights = 0x1f;

inline bool Entry::Serves(Range buffer, uint32_t wanted) const {
  const uint32_t has = access.load(std::memory_order_relaxed);
  return range().Covers(buffer) &&
         (has & wanted & kRights) == (wanted & kRights) &&
         ((has ^ wanted) & ~kRights) == 0;
}

}  // namespace urnic::regcache
