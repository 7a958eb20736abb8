#pragma once

// What a port has allocated for control calls, and where in the source: its
// footprint, and what was not given back when it closes (document E 5.3.2.1 and
// 5.3.2.3).
//
//   the memory | uRNIC-MM, its record, MM-uRNIC
//
// The end of each allocation knows its record, so freeing needs no search. If
// the program has written over it, the record is found by the address, and the
// damage is reported.
//
// Any thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <vector>

#include "ras/trace/trace.h"

namespace urnic {

struct Allocation {
  const void* memory = nullptr;  // null: the record is free
  size_t bytes = 0;
  size_t alignment = 0;
  const char* type = "";  // these live as long as the program
  TracePlace place;
};

class MemoryTracker {
 public:
  MemoryTracker();
  // What is still allocated must not be freed later.
  ~MemoryTracker();
  MemoryTracker(const MemoryTracker&) = delete;
  MemoryTracker& operator=(const MemoryTracker&) = delete;

  // Memory that is not cleared; nullptr: there is none. A null tracker keeps no
  // record. `alignment`: a power of two.
  static void* Allocate(MemoryTracker* tracker, size_t bytes, size_t alignment,
                        const char* type, TracePlace place);
  // `bytes` as given to Allocate(). The tracker still exists.
  static void Free(void* memory, size_t bytes);

  struct Footprint {
    size_t count = 0;
    size_t bytes = 0;       // as asked for
    size_t bytes_most = 0;  // at any time
  };
  Footprint footprint() const;

  // All allocations of one type at one place.
  struct Use {
    const char* type;
    TracePlace place;
    size_t alignment;
    size_t count;
    size_t bytes;
  };
  // With the most bytes first.
  std::vector<Use> Uses() const;

  // Those whose end the program has written over, as far as they were freed
  // since the last call.
  std::vector<Allocation> TakeDamaged();

 private:
  struct Trailer;
  static constexpr uint32_t kChunk = 256;
  using Chunk = std::array<Allocation, kChunk>;

  static MemoryTracker* TrackerOf(const void* memory, uint32_t& number);
  uint32_t Enter(const Allocation& allocation);
  void Leave(uint32_t number);
  std::optional<uint32_t> Find(const void* memory) const;
  Allocation& At(uint32_t number) const {
    return (*chunks_[number / kChunk])[number % kChunk];
  }

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<uint32_t> free_;
  std::vector<Allocation> damaged_;
  Footprint footprint_;
};

// The name of a type, such as "Qp", from the compiler's "... [with T =
// urnic::control::Qp]".
template <typename T>
constexpr auto NameOfType() {
  constexpr std::string_view whole = __PRETTY_FUNCTION__;
  constexpr size_t begin = whole.find_last_of(" :") + 1;
  constexpr std::string_view name =
      whole.substr(begin, whole.find_last_not_of("])") + 1 - begin);
  std::array<char, name.size() + 1> text = {};
  name.copy(text.data(), name.size());
  return text;
}
template <typename T>
inline constexpr auto kNameOfType = NameOfType<T>();

// A base of the objects that are tracked: new (tracker) T(...). The place is
// that of the expression.
template <typename T>
struct Tracked {
  static void* operator new(size_t bytes, MemoryTracker* tracker,
                            TracePlace place = TracePlace::Here()) {
    void* const memory = MemoryTracker::Allocate(tracker, bytes, alignof(T),
                                                 kNameOfType<T>.data(), place);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  static void operator delete(void* memory, size_t bytes) {
    MemoryTracker::Free(memory, bytes);
  }
  // If the constructor throws, which ours do not.
  static void operator delete(void*, MemoryTracker*, TracePlace) {}
};

}  // namespace urnic
