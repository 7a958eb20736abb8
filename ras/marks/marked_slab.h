#pragma once

// Memory for objects that programs hold pointers to (document E 5.1.4 and
// 5.3.2.3): each object lies between two marks that read as text in a hex dump.
//
//   uRNIC-QP | the object | QP-uRNIC
//
// A mark that is gone says that the program wrote over the object. The memory
// of an object that ended is never given back to the heap, and is used again as
// late as possible: a pointer to it finds the mark of an ended object for a
// long time, and never a page that is not there.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <new>
#include <string>

namespace urnic {

struct Marks {
  uint64_t start;
  uint64_t end;
  uint64_t ended;   // instead of `start`: the object has been destroyed
  uint64_t fenced;  // instead of `start`: it was written over, and is not used
};

// `kind`: two or three letters, such as "QP".
template <size_t kBytes>
consteval Marks MarksOf(const char (&kind)[kBytes]) {
  static_assert(kBytes == 3 || kBytes == 4);
  constexpr size_t kKind = kBytes - 1;
  // The characters lie in memory as they are read.
  const auto text = [&](const char* words, bool kind_first) {
    uint64_t number = 0;
    for (size_t i = 0; i < 8; ++i) {
      const size_t at = kind_first ? i : i - (8 - kKind);
      const char c = at < kKind   ? kind[at]
                     : kind_first ? words[i - kKind]
                                  : words[i];
      number |= uint64_t{static_cast<uint8_t>(c)} << (8 * i);
    }
    return number;
  };
  return {.start = text("uRNIC---", false),
          .end = text(kKind == 2 ? "-uRNIC" : "uRNIC", true),
          .ended = text("ended---", false),
          .fenced = text("BAD-----", false)};
}

// As it is read in memory; characters that do not print are dots.
std::string MarkText(uint64_t mark);

// How an object is found.
enum class Health : uint8_t { kIntact, kEnded, kFenced, kDamaged };

// T has `static constexpr Marks kMarks`.
template <typename T>
struct alignas(64) Marked {
  uint64_t start;
  T object;
  uint64_t end;
};

template <typename T>
Marked<T>* MarkedAround(const T* object) {
  static_assert(alignof(T) <= sizeof(uint64_t));
  return reinterpret_cast<Marked<T>*>(reinterpret_cast<uintptr_t>(object) -
                                      sizeof(uint64_t));
}

// Hot: on the cache line of the object's beginning.
template <typename T>
bool HasStartMark(const T* object) {
  return std::atomic_ref(MarkedAround(object)->start)
             .load(std::memory_order_relaxed) == T::kMarks.start;
}

// Both marks. kDamaged: look at them.
template <typename T>
Health HealthOf(const T* object) {
  Marked<T>* const marked = MarkedAround(object);
  const uint64_t start =
      std::atomic_ref(marked->start).load(std::memory_order_relaxed);
  if (start == T::kMarks.ended) return Health::kEnded;
  if (start == T::kMarks.fenced) return Health::kFenced;
  if (start != T::kMarks.start || marked->end != T::kMarks.end)
    return Health::kDamaged;
  return Health::kIntact;
}

// Of a damaged object: from now on it is kFenced. Returns the mark that stood
// there; `fenced`: another thread was faster.
template <typename T>
uint64_t FenceOff(T* object) {
  return std::atomic_ref(MarkedAround(object)->start)
      .exchange(T::kMarks.fenced);
}

// Any thread. One for each kind in a process; see Of().
template <typename T>
class MarkedSlab {
 public:
  // Never destroyed, as programs may end objects while they exit.
  static MarkedSlab& Of() {
    static MarkedSlab* const slab = new MarkedSlab;
    return *slab;
  }

  // An object by its default constructor. Its mark is still that of an ended
  // one: nobody may use it before Begin().
  T* New() {
    std::lock_guard lock(mutex_);
    if (free_.size() <= kRest) AddChunk();
    Marked<T>* const marked = free_.front();
    free_.pop_front();
    new (&marked->object) T;
    marked->end = T::kMarks.end;
    ++used_;
    return &marked->object;
  }
  // The object is whole. Also takes End() back.
  static void Begin(T* object) {
    std::atomic_ref(MarkedAround(object)->start).store(T::kMarks.start);
  }

  // The first step of the end: nobody may begin to use it. False: another
  // thread has ended it, or it is damaged.
  static bool End(T* object) {
    uint64_t start = T::kMarks.start;
    return std::atomic_ref(MarkedAround(object)->start)
        .compare_exchange_strong(start, T::kMarks.ended);
  }
  // The last one. REQUIRES: End() was true, or Begin() was not called.
  void Delete(T* object) {
    object->~T();
    Marked<T>* const marked = MarkedAround(object);
    std::lock_guard lock(mutex_);
    free_.push_back(marked);
    --used_;
  }

  // Objects that exist.
  size_t used() const {
    std::lock_guard lock(mutex_);
    return used_;
  }

 private:
  static constexpr size_t kChunk = 64;
  // So many objects end before the memory of the first is used again.
  static constexpr size_t kRest = kChunk;

  MarkedSlab() = default;
  void AddChunk() {
    do {
      auto* const chunk = static_cast<Marked<T>*>(
          std::aligned_alloc(alignof(Marked<T>), kChunk * sizeof(Marked<T>)));
      if (chunk == nullptr) throw std::bad_alloc();
      // What has ended is used again later than what is new.
      for (size_t i = 0; i < kChunk; ++i) {
        chunk[i].start = T::kMarks.ended;
        free_.push_front(chunk + i);
      }
      chunks_.push_back(chunk);
    } while (free_.size() <= kRest);
  }

  mutable std::mutex mutex_;
  std::deque<Marked<T>*> free_;    // new ones, then that which ended first
  std::deque<Marked<T>*> chunks_;  // for leak checkers
  size_t used_ = 0;
};

}  // namespace urnic
