#pragma once

// The framer of iWARP's wire: TCP over IPv4 or IPv6. It writes the frame of a
// segment: the headers of its path, the header of TCP, and the payload, which
// the connection writes directly into the frame. Has no state.
//
// The checksum is computed here, unless the port completes it.

#include <cstdint>
#include <span>

#include "transport/iwarp/tcp/connection.h"
#include "transport/net/path.h"
#include "transport/wire/be.h"
#include "transport/wire/header_template.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/tcp.h"

namespace urnic {

class TcpFramer {
 public:
  // Writes the frame of a segment to `out`, and returns its length.
  // `write_payload(std::span<uint8_t> to)` writes the payload; if it returns
  // false, this function returns 0. `out` has room for the largest packet of
  // the path with its Ethernet header and tag, and at least kRoomForHeaders
  // bytes. `finished_later`: the checksum field only gets the sum of the pseudo
  // header.
  template <typename WritePayload>
  static uint32_t Write(const net::Path& path, const tcp::TcpSlot& slot,
                        uint8_t* out, bool finished_later,
                        WritePayload&& write_payload) {
    const uint32_t header_bytes = wire::TcpHeaderBytes(slot.fields.options);
    path.headers.WriteIp(out, wire::kIpProtocolTcp,
                         slot.ect ? wire::kEcnCapable : uint8_t{0},
                         static_cast<uint16_t>(header_bytes + slot.bytes));
    const auto ip_bytes = static_cast<uint32_t>(path.headers.ip_end());
    uint8_t* const tcp = out + ip_bytes;
    wire::WriteTcpHeader(slot.fields, tcp);
    const std::span<uint8_t> payload(tcp + header_bytes, slot.bytes);
    if (!write_payload(payload)) return 0;
    const wire::Gid& src = path.headers.src();
    const wire::Be<uint16_t> checksum(
        finished_later
            ? wire::TcpPseudoSum(src, path.remote, header_bytes + slot.bytes)
            : wire::TcpChecksum(src, path.remote, {tcp, header_bytes},
                                payload));
    reinterpret_cast<wire::Tcp*>(tcp)->checksum = checksum;
    return ip_bytes + header_bytes + slot.bytes;
  }

  static constexpr uint32_t kRoomForHeaders =
      wire::HeaderTemplate::kMaxBytes + wire::kTcpMaxHeaderBytes;
};

}  // namespace urnic
