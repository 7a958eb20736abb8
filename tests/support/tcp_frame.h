#pragma once

// Frames of TCP as a stranger sends them.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/support/host_wire.h"
#include "transport/wire/be.h"
#include "transport/wire/header_template.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/tcp.h"

namespace urnic::testing {

struct TcpEnds {
  wire::NeighborSelf from;
  wire::NeighborSelf to;
};

// A segment with right checksums.
inline FrameBytes TcpFrame(const TcpEnds& ends, const wire::TcpFields& fields,
                           std::span<const uint8_t> payload = {}) {
  wire::PathHeaders headers;
  headers.src_mac = ends.from.mac;
  headers.dst_mac = ends.to.mac;
  headers.src = ends.from.gid;
  headers.dst = ends.to.gid;
  const wire::HeaderTemplate path(headers);
  const uint32_t header_bytes = wire::TcpHeaderBytes(fields.options);
  const size_t tcp_bytes = header_bytes + payload.size();
  FrameBytes frame(wire::HeaderTemplate::kMaxBytes + tcp_bytes);
  path.WriteIp(frame.data(), wire::kIpProtocolTcp, 0,
               static_cast<uint16_t>(tcp_bytes));
  frame.resize(path.ip_end() + tcp_bytes);
  uint8_t* const tcp = frame.data() + path.ip_end();
  wire::WriteTcpHeader(fields, tcp);
  std::ranges::copy(payload, tcp + header_bytes);
  reinterpret_cast<wire::Tcp*>(tcp)->checksum =
      wire::Be<uint16_t>(wire::TcpChecksum(ends.from.gid, ends.to.gid,
                                           {tcp, header_bytes}, payload));
  return frame;
}

}  // namespace urnic::testing
