#include "transport/iwarp/rdmap/terminate.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace urnic::rdmap {
namespace {

constexpr uint8_t kAllCopies = wire::kTerminateHasLength |
                               wire::kTerminateHasDdpHeader |
                               wire::kTerminateHasRdmapHeader;

// Whether the standards define this error.
bool IsDefined(const ddp::StreamError& error) {
  const uint8_t code = error.code;
  if (error.type == ddp::kLocalType) {
    return error.layer <= ddp::kDdpLayer ||
           (error.layer == ddp::kMpaLayer && code >= 1 && code <= 7);
  }
  switch (error.layer << 4 | error.type) {
    case 0x01:
      return code <= 4 || code == 9 || code == 0xff;
    case 0x02:
      return (code >= 5 && code <= 9) || code == 0xff;
    case 0x11:
      return code <= 4;
    case 0x12:
      return code >= 1 && code <= 6;
    default:
      return false;
  }
}

// Linux siw writes the control field as bit fields of its host: the nibbles of
// the first byte are swapped, and the flags are at the low end. If there are
// copies of headers, the flags show the layout; otherwise the error does.
bool IsSwapped(const wire::RdmapTerminate& control) {
  if ((control.present & kAllCopies) != 0) return false;
  if (control.present != 0) return true;
  const ddp::StreamError plain{control.layer(), control.type(), control.code};
  const ddp::StreamError swapped{control.type(), control.layer(), control.code};
  return !IsDefined(plain) && IsDefined(swapped);
}

// The flags of a swapped control field, where they should be.
uint8_t FlagsOf(uint8_t swapped) {
  constexpr uint8_t kLength = 1;
  constexpr uint8_t kDdp = 2;
  constexpr uint8_t kRdmap = 4;
  return static_cast<uint8_t>(
      ((swapped & kLength) != 0 ? wire::kTerminateHasLength : 0) |
      ((swapped & kDdp) != 0 ? wire::kTerminateHasDdpHeader : 0) |
      ((swapped & kRdmap) != 0 ? wire::kTerminateHasRdmapHeader : 0));
}

void ParseCopies(std::span<const uint8_t> rest, uint8_t flags, Terminate& out) {
  wire::Be<uint16_t> ulpdu_bytes;
  if ((flags & wire::kTerminateHasLength) != 0 &&
      rest.size() >= sizeof(ulpdu_bytes)) {
    std::memcpy(&ulpdu_bytes, rest.data(), sizeof(ulpdu_bytes));
    rest = rest.subspan(sizeof(ulpdu_bytes));
  }
  if ((flags & wire::kTerminateHasDdpHeader) == 0) return;
  if (ddp::ParseSegment({&rest, 1}, out.segment)) return;
  out.has_header = true;
  rest = rest.subspan(out.segment.header_bytes);
  if (ulpdu_bytes.value() > out.segment.header_bytes)
    out.payload_bytes = ulpdu_bytes.value() - out.segment.header_bytes;
  out.segment.pieces = {};  // they end with this call
  out.segment.payload_bytes = 0;
  if ((flags & wire::kTerminateHasRdmapHeader) == 0 ||
      rest.size() < sizeof(out.read_request)) {
    return;
  }
  std::memcpy(&out.read_request, rest.data(), sizeof(out.read_request));
  out.has_read_request = true;
}

}  // namespace

uint32_t BuildTerminate(const ddp::StreamError& error,
                        const ddp::ReceivedSegment* cause, uint8_t* out) {
  wire::RdmapTerminate control;
  control.layer_type = static_cast<uint8_t>(error.layer << 4 | error.type);
  control.code = error.code;
  //= RFC 5040 4.8: a Terminate copies headers only if the peer's message caused
  //= the error
  if (cause == nullptr || cause->header_bytes == 0 ||
      error.type == ddp::kLocalType || error.layer > ddp::kDdpLayer) {
    std::memcpy(out, &control, sizeof(control));
    return sizeof(control);
  }
  uint32_t copied = cause->header_bytes;
  control.present = wire::kTerminateHasLength | wire::kTerminateHasDdpHeader;
  //= RFC 5040 4.8: a Terminate copies the RDMAP header of a read request only
  if (error.layer == ddp::kRdmapLayer && !cause->tagged() &&
      cause->control.opcode() ==
          static_cast<uint8_t>(wire::RdmapOpcode::kReadRequest) &&
      cause->payload_bytes >= sizeof(wire::RdmapReadRequest)) {
    control.present |= wire::kTerminateHasRdmapHeader;
    copied += sizeof(wire::RdmapReadRequest);
  }
  std::memcpy(out, &control, sizeof(control));
  const wire::Be<uint16_t> length(static_cast<uint16_t>(cause->ulpdu_bytes()));
  std::memcpy(out + sizeof(control), &length, sizeof(length));
  constexpr uint32_t kCopiesAt = sizeof(control) + sizeof(length);
  cause->CopyUlpdu(out + kCopiesAt, copied);
  return kCopiesAt + copied;
}

RefusedAccess Terminate::access() const {
  if (has_header && segment.tagged() &&
      segment.control.opcode() ==
          static_cast<uint8_t>(wire::RdmapOpcode::kWrite)) {
    return {.range = {segment.offset, payload_bytes, MrKey{segment.stag}},
            .request = URNIC_WR_RDMA_WRITE};
  }
  if (has_read_request) {
    return {.range = {read_request.source_offset.value(),
                      read_request.bytes.value(),
                      MrKey{read_request.source_stag.value()}},
            .request = URNIC_WR_RDMA_READ};
  }
  return {};
}

bool ParseTerminate(std::span<const uint8_t> payload, Terminate& out) {
  out = Terminate{};
  wire::RdmapTerminate control;
  if (payload.size() < sizeof(control)) return false;
  std::memcpy(&control, payload.data(), sizeof(control));
  uint8_t flags = control.present;
  out.error = {control.layer(), control.type(), control.code};
  if (IsSwapped(control)) {
    std::swap(out.error.layer, out.error.type);
    flags = FlagsOf(control.present);
  }
  ParseCopies(payload.subspan(sizeof(control)), flags, out);
  return true;
}

}  // namespace urnic::rdmap
