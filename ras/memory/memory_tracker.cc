#include "ras/memory/memory_tracker.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "ras/marks/marked_block.h"
#include "ras/marks/marked_slab.h"
#include "transport/base/check.h"

namespace urnic {

namespace {

constexpr Marks kMarks = MarksOf("MM");

// All that exist, for an allocation whose end is damaged.
struct Trackers {
  std::mutex mutex;
  std::set<MemoryTracker*> all;
};
Trackers& AllTrackers() {
  static Trackers* const trackers = new Trackers;
  return *trackers;
}

}  // namespace

// Behind the memory.
struct MemoryTracker::Trailer {
  uint64_t start = kMarks.start;
  MemoryTracker* tracker = nullptr;
  uint32_t number = 0;
  uint32_t bytes_below_4g = 0;
  uint64_t end = kMarks.end;

  static Trailer* Of(void* memory, size_t bytes) {
    return reinterpret_cast<Trailer*>(static_cast<char*>(memory) +
                                      RoundUp(bytes, alignof(Trailer)));
  }
  bool IsIntact(size_t bytes) const {
    return start == kMarks.start && end == kMarks.end &&
           bytes_below_4g == static_cast<uint32_t>(bytes);
  }
};

MemoryTracker::MemoryTracker() {
  Trackers& trackers = AllTrackers();
  std::lock_guard lock(trackers.mutex);
  trackers.all.insert(this);
}

MemoryTracker::~MemoryTracker() {
  Trackers& trackers = AllTrackers();
  std::lock_guard lock(trackers.mutex);
  trackers.all.erase(this);
}

void* MemoryTracker::Allocate(MemoryTracker* tracker, size_t bytes,
                              size_t alignment, const char* type,
                              TracePlace place) {
  alignment = std::max(alignment, alignof(Trailer));
  size_t whole = RoundUp(bytes, alignof(Trailer)) + sizeof(Trailer);
  // glibc has a word or two before each allocation. Those that begin pages
  // would leave a page free between them, unless there is room for that.
  constexpr size_t kPage = 4096;
  constexpr size_t kHeapHeader = 16;
  if (alignment >= kPage)
    whole = RoundUp(whole + kHeapHeader, kPage) - kHeapHeader;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, whole) != 0) return nullptr;
  Trailer trailer{.tracker = tracker,
                  .bytes_below_4g = static_cast<uint32_t>(bytes)};
  if (tracker != nullptr)
    trailer.number = tracker->Enter({memory, bytes, alignment, type, place});
  *Trailer::Of(memory, bytes) = trailer;
  return memory;
}

void MemoryTracker::Free(void* memory, size_t bytes) {
  if (memory == nullptr) return;
  const Trailer trailer = *Trailer::Of(memory, bytes);
  if (trailer.IsIntact(bytes)) {
    if (trailer.tracker != nullptr) trailer.tracker->Leave(trailer.number);
  } else {
    uint32_t number = 0;
    MemoryTracker* const tracker = TrackerOf(memory, number);
    if (tracker != nullptr) {
      {
        std::lock_guard lock(tracker->mutex_);
        tracker->damaged_.push_back(tracker->At(number));
      }
      tracker->Leave(number);
    }
  }
  std::free(memory);
}

MemoryTracker* MemoryTracker::TrackerOf(const void* memory, uint32_t& number) {
  Trackers& trackers = AllTrackers();
  std::lock_guard lock(trackers.mutex);
  for (MemoryTracker* tracker : trackers.all) {
    if (const auto found = tracker->Find(memory)) {
      number = *found;
      return tracker;
    }
  }
  return nullptr;
}

uint32_t MemoryTracker::Enter(const Allocation& allocation) {
  std::lock_guard lock(mutex_);
  if (free_.empty()) {
    const auto first = static_cast<uint32_t>(chunks_.size()) * kChunk;
    chunks_.push_back(std::make_unique<Chunk>());
    for (uint32_t i = kChunk; i-- > 0;) free_.push_back(first + i);
  }
  const uint32_t number = free_.back();
  free_.pop_back();
  At(number) = allocation;
  ++footprint_.count;
  footprint_.bytes += allocation.bytes;
  footprint_.bytes_most = std::max(footprint_.bytes_most, footprint_.bytes);
  return number;
}

void MemoryTracker::Leave(uint32_t number) {
  std::lock_guard lock(mutex_);
  URNIC_CHECK(At(number).memory != nullptr);
  --footprint_.count;
  footprint_.bytes -= At(number).bytes;
  At(number) = {};
  free_.push_back(number);
}

std::optional<uint32_t> MemoryTracker::Find(const void* memory) const {
  std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < chunks_.size() * kChunk; ++i) {
    if (At(i).memory == memory) return i;
  }
  return std::nullopt;
}

MemoryTracker::Footprint MemoryTracker::footprint() const {
  std::lock_guard lock(mutex_);
  return footprint_;
}

std::vector<MemoryTracker::Use> MemoryTracker::Uses() const {
  std::vector<Use> uses;
  {
    // Few places, many allocations.
    std::map<std::tuple<const char*, const char*, uint16_t>, Use> by_place;
    // Nobody waits for more than a chunk. What comes and goes meanwhile may be
    // missing.
    std::unique_lock lock(mutex_);
    for (uint32_t i = 0; i < chunks_.size() * kChunk; ++i) {
      if (i % kChunk == 0) {
        lock.unlock();
        lock.lock();
      }
      const Allocation& one = At(i);
      if (one.memory == nullptr) continue;
      Use& use = by_place
                     .try_emplace({one.type, one.place.file, one.place.line},
                                  Use{one.type, one.place, one.alignment, 0, 0})
                     .first->second;
      ++use.count;
      use.bytes += one.bytes;
    }
    for (const auto& [place, use] : by_place) uses.push_back(use);
  }
  std::ranges::sort(uses, [](const Use& a, const Use& b) {
    return std::tuple(b.bytes, std::string_view(a.type), a.place.line) <
           std::tuple(a.bytes, std::string_view(b.type), b.place.line);
  });
  return uses;
}

std::vector<Allocation> MemoryTracker::TakeDamaged() {
  std::lock_guard lock(mutex_);
  return std::exchange(damaged_, {});
}

}  // namespace urnic
