#pragma once

// What happened to the frames of one direction. Each frame ends in one of the
// places below, so that no loss is silent:
//
//   offered + duplicated = delivered + lost + burst_lost + overflowed +
//       red_dropped + dead + no_room + failed + what is still under way

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace urnic::impair {

#define URNIC_IMPAIR_COUNTS(X)                                      \
  X(offered)     /* frames that entered */                          \
  X(delivered)   /* frames that were passed on */                   \
  X(lost)        /* `loss` */                                       \
  X(burst_lost)  /* `burst` */                                      \
  X(overflowed)  /* the buffer in front of `rate` was full */       \
  X(red_dropped) /* `red` hit a frame without ECN */                \
  X(marked)      /* `red`: got "congestion experienced" */          \
  X(duplicated)  /* copies made */                                  \
  X(corrupted)   /* passed on with bits flipped */                  \
  X(reordered)   /* held back so that others may overtake */        \
  X(stalled)     /* entered during a `stall`, waited for its end */ \
  X(dead)        /* entered after `die` */                          \
  X(no_room)     /* too many frames under way */                    \
  X(failed)      /* the far side did not take it */

enum class Count : uint8_t {
#define URNIC_IMPAIR_ENUM(name) k_##name,
  URNIC_IMPAIR_COUNTS(URNIC_IMPAIR_ENUM)
#undef URNIC_IMPAIR_ENUM
      kEnd,
};
inline constexpr size_t kCounts = static_cast<size_t>(Count::kEnd);

inline constexpr const char* kCountNames[] = {
#define URNIC_IMPAIR_NAME(name) #name,
    URNIC_IMPAIR_COUNTS(URNIC_IMPAIR_NAME)
#undef URNIC_IMPAIR_NAME
};
static_assert(std::size(kCountNames) == kCounts);

// The values at one moment.
struct CountValues {
  std::array<uint64_t, kCounts> values = {};
  uint64_t of(Count count) const { return values[static_cast<size_t>(count)]; }
};

// One thread at a time adds; any thread reads.
class Counts {
 public:
  void Add(Count count, uint64_t n = 1) {
    std::atomic<uint64_t>& value = values_[static_cast<size_t>(count)];
    value.store(value.load(std::memory_order_relaxed) + n,
                std::memory_order_relaxed);
  }
  CountValues Read() const {
    CountValues now;
    for (size_t i = 0; i < kCounts; ++i) {
      now.values[i] = values_[i].load(std::memory_order_relaxed);
    }
    return now;
  }

 private:
  std::array<std::atomic<uint64_t>, kCounts> values_ = {};
};

}  // namespace urnic::impair
