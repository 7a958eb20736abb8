#pragma once

// The inputs of one queue pair, for a replay (docs/design/0013-ras.md, 11):
// everything that its core was given, and what the core made of it. A log is
// bounded: it has two segments, each of which begins with an image of the queue
// pair, so a replay can begin there. When the newer one is full, it becomes the
// older one.
//
//   LogHeader | u64 bytes | items of the older segment | u64 bytes | items ..
//
// An item is an ItemHeader and its body, padded to eight bytes. This file does
// not know what items mean: that is the transport's (transport/work/inputs.h).
// Numbers are those of the machine, and bodies have the layout of this build: a
// log is replayed by the version that wrote it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"

namespace urnic {

struct InputItem {
  uint8_t kind = 0;
  uint8_t small = 0;
  uint16_t medium = 0;
  uint32_t large = 0;
  std::span<const uint8_t> body = {};

  // The beginning of the body as a plain struct; zeros where it is shorter.
  template <typename T>
  T As() const;
};

// Thread: one at a time (the holder of the engine's token). Allocates only when
// it is made.
class InputLog {
 public:
  static constexpr size_t kBytesMin = size_t{64} << 10;
  static constexpr size_t kBytesMax = size_t{256} << 20;

  // `bytes`: of both segments, kBytesMin to kBytesMax.
  InputLog(uint32_t qpn, size_t bytes);

  uint32_t qpn() const { return qpn_; }
  size_t bytes() const { return 2 * half_bytes_; }

  // A new segment should begin, at the next moment when it can.
  bool WantsSegment() const { return wants_segment_; }
  void DemandSegment() { wants_segment_ = true; }
  // The segment before the last is forgotten, or, if the last one is not worth
  // keeping, that one. `layout` says what the bodies look like, and is the same
  // for all segments.
  void BeginSegment(uint32_t layout, bool keeps_last = true);
  // What a segment begins with is complete. If it is so long that little room
  // is left, the segment goes on until it is full.
  void EndBeginning();
  // Without room, the item and all that follow it in this segment are lost.
  void Add(const InputItem& item) { Add(item, {}); }
  // With a body in two parts.
  void Add(const InputItem& item, std::span<const uint8_t> second);

  // How many items were lost: since the last segment began, and ever.
  uint64_t lost() const { return lost_; }
  uint64_t lost_ever() const { return lost_ever_; }
  size_t used() const { return older_.used + newer_.used; }
  uint32_t segments() const {
    return (older_.used != 0 ? 1 : 0) + (newer_.used != 0 ? 1 : 0);
  }

  void AppendTo(std::string& out) const;

 private:
  struct Segment {
    std::unique_ptr<uint8_t[]> bytes;
    size_t used = 0;
  };

  const uint32_t qpn_;
  uint32_t layout_ = 0;
  const size_t half_bytes_;
  bool wants_segment_ = true;
  size_t enough_ = 0;  // so many bytes are enough for the newer segment
  uint64_t lost_ = 0;
  uint64_t lost_ever_ = 0;
  Segment older_;
  Segment newer_;
};

// A log as it was read. It refers to the bytes that it was made of.
struct ParsedInputLog {
  uint32_t qpn = 0;
  uint32_t layout = 0;
  bool lost = false;  // items at the end of the last segment
  std::vector<std::vector<InputItem>> segments;  // the older first
};

// Takes one log from the beginning of `bytes`. INVALID_ARGUMENT: that is none,
// or a damaged one, or one of another version.
absl::StatusOr<ParsedInputLog> TakeInputLog(std::span<const uint8_t>& bytes);

// --- Implementation ----------------------------------------------------------

template <typename T>
T InputItem::As() const {
  T value = {};
  const size_t bytes = body.size() < sizeof(T) ? body.size() : sizeof(T);
  __builtin_memcpy(static_cast<void*>(&value), body.data(), bytes);
  return value;
}

// A plain struct as the body of an item.
template <typename T>
std::span<const uint8_t> BodyOf(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const uint8_t*>(&value), sizeof(value)};
}

}  // namespace urnic
