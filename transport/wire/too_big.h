#pragma once

// What routers report about packets that do not fit the next link: ICMP
// "fragmentation needed" and ICMPv6 "packet too big", in one form. Not for the
// packet path.

#include <cstdint>

#include "transport/wire/address.h"
#include "transport/wire/frame.h"

namespace urnic::wire {

struct TooBigInfo {
  // The largest IP packet that the next link takes.
  //= RFC 1191 5: a router that does not know path MTU discovery reports an MTU
  //= of 0 (IPv4 only)
  uint32_t mtu = 0;
  // The quoted packet: its source, its destination and its length.
  Gid src;
  Gid dst;
  uint32_t packet_bytes = 0;
  // It is a TCP segment with these numbers; otherwise it is a RoCE v2 packet.
  bool tcp = false;
  uint16_t src_port = 0;
  uint16_t dst_port = 0;
  uint32_t seq = 0;
};

// True for a message of that kind that quotes a RoCE v2 packet (UDP to port
// 4791) or a TCP segment. REQUIRES: ParseIcmp() returned kIcmp for the frame.
[[nodiscard]] bool ParseTooBig(const FrameView& frame, TooBigInfo& out);

}  // namespace urnic::wire
