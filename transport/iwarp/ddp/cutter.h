#pragma once

// Cuts messages into DDP segments. A segment becomes one ULPDU of MPA.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "transport/base/check.h"
#include "transport/iwarp/ddp/source.h"
#include "transport/wire/ddp.h"
#include "transport/work/types.h"

namespace urnic::ddp {

// TxSlot::headers of a ULPDU has room for this: the DDP header and an atomic
// request, or a Terminate with its copies of headers.
inline constexpr uint32_t kMaxUlpduHeaderBytes =
    sizeof(wire::DdpUntagged) + sizeof(wire::RdmapAtomicRequest);

// The translation of a null region is good for one page (mem::MrTable).
inline constexpr uint32_t kMaxPayloadBytes = 4096;
static_assert(kMaxPayloadBytes < 1u << Source::kPayloadBits);

// Nothing is cut while a ULPDU may not have this many bytes: the messages that
// are not divided need 70.
inline constexpr uint32_t kMinMulpdu = 128;

// Whether the caller keeps the frame of a segment's first transmission until it
// is acknowledged. kMay: if it keeps the frame, the request completes now.
// kShared: the same, but only if other messages share the frame. kMust: it has
// to, because the segment cannot be built a second time.
enum class Keep : uint8_t { kNo, kMay, kShared, kMust };

// A segment that was cut. ulpdu_bytes 0: there is nothing to send.
struct Cut {
  uint64_t source = 0;
  uint32_t ulpdu_bytes = 0;
  Keep keep = Keep::kNo;
};

// The payload of the next segment of a message with `left` bytes.
//= RFC 5041 5.2: a segment is not longer than the MULPDU
inline uint32_t PayloadBytes(uint32_t left, uint32_t header_bytes,
                             uint32_t mulpdu) {
  return std::min({left, mulpdu - header_bytes, kMaxPayloadBytes});
}

template <typename Header>
void Append(TxSlot& slot, const Header& header) {
  static_assert(alignof(Header) == 1);
  std::memcpy(slot.headers + slot.header_bytes, &header, sizeof(header));
  slot.header_bytes += sizeof(header);
  URNIC_CHECK(slot.header_bytes <= kMaxUlpduHeaderBytes);
}

//= RFC 5041 4.2: a tagged segment names the STag and the offset of its own
//= first byte
inline void WriteTagged(TxSlot& slot, wire::RdmapOpcode opcode, bool last,
                        uint32_t stag, uint64_t offset) {
  wire::DdpTagged header;
  header.control = wire::DdpControl::Make(true, last, opcode);
  header.stag = wire::Be<uint32_t>(stag);
  header.offset = wire::Be<uint64_t>(offset);
  slot.header_bytes = 0;
  Append(slot, header);
}

struct UntaggedFields {
  wire::RdmapOpcode opcode = wire::RdmapOpcode::kSend;
  bool last = true;
  uint32_t queue = 0;
  uint32_t msn = 0;
  uint32_t offset = 0;
  uint32_t stag = 0;  // to invalidate
};

//= RFC 5041 4.3: all segments of an untagged message have its MSN, and bit L
//= marks the last
inline void WriteUntagged(TxSlot& slot, const UntaggedFields& fields) {
  wire::DdpUntagged header;
  header.control = wire::DdpControl::Make(false, fields.last, fields.opcode);
  header.invalidate_stag = wire::Be<uint32_t>(fields.stag);
  header.queue = wire::Be<uint32_t>(fields.queue);
  header.msn = wire::Be<uint32_t>(fields.msn);
  header.offset = wire::Be<uint32_t>(fields.offset);
  slot.header_bytes = 0;
  Append(slot, header);
}

}  // namespace urnic::ddp
