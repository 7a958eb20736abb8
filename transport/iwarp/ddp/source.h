#pragma once

// How TCP names the bytes of a DDP segment without a copy of them: 64 bits from
// which the segment is built again.

#include <cstdint>

namespace urnic::ddp {

// The kind of message that a segment belongs to. kAnswer: a read response or an
// atomic's answer, whose frame is kept because its memory may change. kControl:
// a message that rdmap::Qp makes by itself.
enum class SourceKind : uint8_t { kRequest = 0, kAnswer = 1, kControl = 2 };

//   63..62 kind, 61..46 index, 45..14 offset, 13..0 payload_bytes
struct Source {
  SourceKind kind = SourceKind::kRequest;
  uint16_t index = 0;   // the low bits of a free-running index
  uint32_t offset = 0;  // of the payload in its message
  // Of the first transmission: the boundaries of a segment never change.
  uint32_t payload_bytes = 0;

  static constexpr uint32_t kPayloadBits = 14;

  constexpr uint64_t Pack() const {
    return uint64_t{static_cast<uint8_t>(kind)} << 62 | uint64_t{index} << 46 |
           uint64_t{offset} << kPayloadBits | payload_bytes;
  }
  static constexpr Source Unpack(uint64_t packed) {
    return {.kind = static_cast<SourceKind>(packed >> 62),
            .index = static_cast<uint16_t>(packed >> 46),
            .offset = static_cast<uint32_t>(packed >> kPayloadBits),
            .payload_bytes =
                static_cast<uint32_t>(packed & ((1u << kPayloadBits) - 1))};
  }
  // The full free-running index: the one nearest to `near`.
  constexpr uint32_t IndexNear(uint32_t near) const {
    return near + static_cast<uint32_t>(static_cast<int16_t>(
                      static_cast<uint16_t>(index - near)));
  }
  friend constexpr bool operator==(const Source&, const Source&) = default;
};

}  // namespace urnic::ddp
