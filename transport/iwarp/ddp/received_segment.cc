#include "transport/iwarp/ddp/received_segment.h"

namespace urnic::ddp {

StreamError ParseSegment(Pieces pieces, ReceivedSegment& out) {
  out = ReceivedSegment{.pieces = pieces};
  uint32_t total = 0;
  for (const std::span<const uint8_t> piece : pieces) {
    total += static_cast<uint32_t>(piece.size());
  }
  out.payload_bytes = total;
  uint8_t header[sizeof(wire::DdpUntagged)];
  const uint32_t read = std::min<uint32_t>(total, sizeof(header));
  out.CopyUlpdu(header, read);
  if (read < sizeof(wire::DdpControl)) return kDdpCatastrophic;
  std::memcpy(&out.control, header, sizeof(out.control));
  const bool tagged = out.control.tagged();
  //= RFC 5041 7.1: the version is checked before anything else
  if ((out.control.ddp & wire::kDdpVersionMask) != wire::kDdpVersion) {
    return tagged ? kTaggedVersion : kUntaggedVersion;
  }
  const uint32_t header_bytes =
      tagged ? sizeof(wire::DdpTagged) : sizeof(wire::DdpUntagged);
  if (total < header_bytes) return kDdpCatastrophic;
  out.header_bytes = header_bytes;
  out.payload_bytes = total - header_bytes;
  if (tagged) {
    wire::DdpTagged fields;
    std::memcpy(&fields, header, sizeof(fields));
    out.stag = fields.stag.value();
    out.offset = fields.offset.value();
    return kNoError;
  }
  wire::DdpUntagged fields;
  std::memcpy(&fields, header, sizeof(fields));
  out.stag = fields.invalidate_stag.value();
  out.queue = fields.queue.value();
  out.msn = fields.msn.value();
  out.offset = fields.offset.value();
  return kNoError;
}

}  // namespace urnic::ddp
