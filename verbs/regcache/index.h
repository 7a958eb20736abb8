#pragma once

// Finds registrations by address: a hash table of segments of 4 GB, each with a
// bit vector of its 256 fragments of 16 MB, and an array with what is
// registered of each. A registration is entered at every fragment that it
// touches.
//
// Find() needs no lock: tables only grow until the cache is closed, and an
// entry found is believed only after a use of it was taken (entry.h). All else
// is called under the lock.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "verbs/regcache/arena.h"
#include "verbs/regcache/entry.h"
#include "verbs/regcache/range.h"

namespace urnic::regcache {

class Index {
 public:
  explicit Index(Arena& arena) : arena_(arena) {}

  enum class Found { kUse, kNothing, kFull };

  // A use of a registration that covered the buffer and had the rights when it
  // was looked at: without the lock, the caller looks again.
  // kFull: there is one, with as many uses as can be counted.
  Found Find(Range buffer, uint32_t access, Entry** found);

  // False: no memory, and nothing is entered.
  bool Insert(Entry* entry);
  // After Insert() of a larger range: leaves it in the fragments of `range`.
  void Narrow(Entry* entry, Range range);
  void Remove(Entry* entry) { Narrow(entry, {}); }

  // Calls visit(entry) for each that overlaps the range; once for each fragment
  // that both touch. The visitor may remove the entry.
  template <typename Visitor>
  void Visit(Range range, Visitor&& visit);

  bool IsEmpty(uint64_t fragment) const;

  // A whole registration of this fragment has failed: until this tick, only the
  // pages of buffers are tried.
  uint64_t pages_until(uint64_t fragment) const;
  void set_pages_until(uint64_t fragment, uint64_t tick);

 private:
  // A cache line. More are chained if a fragment has more registrations.
  struct alignas(64) Slots {
    std::array<std::atomic<Entry*>, 7> entries{};
    std::atomic<Slots*> next{nullptr};
  };
  struct Fragment {
    Slots slots;
    uint32_t count = 0;
    uint64_t pages_until = 0;
  };
  struct Segment {
    uint64_t number = 0;
    Segment* in_bucket = nullptr;
    Segment* in_all = nullptr;
    std::array<std::atomic<uint64_t>, 4> mapped{};
    std::array<std::atomic<Fragment*>, 256> fragments{};

    bool IsMapped(uint32_t i) const {
      return (mapped[i / 64].load(std::memory_order_acquire) >> (i % 64) & 1) !=
             0;
    }
  };
  static constexpr uint32_t kBuckets = 256;

  static uint32_t BucketOf(uint64_t segment) {
    return static_cast<uint32_t>(segment ^ segment >> 8) % kBuckets;
  }
  Segment* SegmentOf(uint64_t number) const {
    Segment* segment =
        buckets_[BucketOf(number)].load(std::memory_order_acquire);
    while (segment != nullptr && segment->number != number) {
      segment = segment->in_bucket;
    }
    return segment;
  }
  static uint64_t SegmentNumber(uint64_t fragment) { return fragment / 256; }
  Fragment* FragmentOf(uint64_t fragment) const;
  Fragment* MakeFragment(uint64_t fragment);
  bool InsertAt(uint64_t fragment, Entry* entry);
  void RemoveAt(uint64_t fragment, Entry* entry);

  template <typename Visitor>
  void VisitSegment(Segment& segment, Range range, Visitor&& visit);

  Arena& arena_;
  std::array<std::atomic<Segment*>, kBuckets> buckets_{};
  Segment* all_ = nullptr;
  uint64_t segments_ = 0;
};

inline Index::Found Index::Find(Range buffer, uint32_t access, Entry** found) {
  const Segment* segment = SegmentOf(buffer.begin >> kSegmentBits);
  if (segment == nullptr) return Found::kNothing;
  const uint32_t i = (buffer.begin >> kFragmentBits) % 256;
  if (!segment->IsMapped(i)) return Found::kNothing;
  const Fragment* fragment =
      segment->fragments[i].load(std::memory_order_acquire);
  for (const Slots* slots = &fragment->slots; slots != nullptr;
       slots = slots->next.load(std::memory_order_acquire)) {
    for (const auto& slot : slots->entries) {
      Entry* entry = slot.load(std::memory_order_acquire);
      if (entry == nullptr || !entry->Serves(buffer, access)) continue;
      switch (entry->word.TryUse()) {
        case UseWord<std::atomic<uint64_t>>::Get::kFull:
          return Found::kFull;
        case UseWord<std::atomic<uint64_t>>::Get::kUnusable:
          continue;
        case UseWord<std::atomic<uint64_t>>::Get::kDone:
          break;
      }
      *found = entry;
      return Found::kUse;
    }
  }
  return Found::kNothing;
}

template <typename Visitor>
void Index::VisitSegment(Segment& segment, Range range, Visitor&& visit) {
  const uint64_t first = segment.number * 256;
  const uint64_t from = std::max(range.begin >> kFragmentBits, first);
  const uint64_t to = std::min((range.end - 1) >> kFragmentBits, first + 255);
  for (uint64_t f = from; f <= to; ++f) {
    const uint32_t i = f % 256;
    if (i % 64 == 0 && segment.mapped[i / 64].load() == 0) {
      f += 63;
      continue;
    }
    if (!segment.IsMapped(i)) continue;
    for (Slots* slots = &segment.fragments[i].load()->slots; slots != nullptr;
         slots = slots->next.load()) {
      for (auto& slot : slots->entries) {
        Entry* entry = slot.load();
        if (entry != nullptr && entry->range().Overlaps(range)) visit(*entry);
      }
    }
  }
}

template <typename Visitor>
void Index::Visit(Range range, Visitor&& visit) {
  if (range.begin >= range.end) return;
  const uint64_t first = range.begin >> kSegmentBits;
  const uint64_t last = (range.end - 1) >> kSegmentBits;
  if (last - first >= segments_) {
    for (Segment* s = all_; s != nullptr; s = s->in_all) {
      if (s->number >= first && s->number <= last) {
        VisitSegment(*s, range, visit);
      }
    }
    return;
  }
  for (uint64_t n = first; n <= last; ++n) {
    if (Segment* segment = SegmentOf(n)) VisitSegment(*segment, range, visit);
  }
}

}  // namespace urnic::regcache
