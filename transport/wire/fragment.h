#pragma once

// Fragments of IP packets, in one form for IPv4 and IPv6.

#include <cstdint>
#include <span>

#include "ras/metrics/rx_verdict.h"
#include "transport/wire/address.h"
#include "transport/wire/frame.h"

namespace urnic::wire {

struct Fragment {
  // The packet that it belongs to; its protocol is ICMP, ICMPv6 or UDP.
  Gid src;
  Gid dst;
  uint8_t protocol = 0;
  uint32_t identification = 0;
  // The part of the packet. 0: the first byte after the IP header.
  uint32_t offset = 0;
  bool last = false;
  bool marked = false;            // by ECN
  std::span<const uint8_t> data;  // not empty

  uint32_t end() const { return offset + static_cast<uint32_t>(data.size()); }
};

// For a frame that ParseFrame() called kIpFragment. kAccept: `out` is set.
// kBadFragment: a length that no fragment can have. kIpFragment: its packet is
// not reassembled, because it is neither ICMP nor ICMPv6 nor UDP. Of UDP, the
// caller takes RUD only. RoCE packets are not reassembled: their sender must
// not fragment them (it sets "don't fragment", and IPv6 routers do not
// fragment), and a responder accepts only packets of the agreed path MTU.
[[nodiscard]] RxVerdict ParseFragment(const FrameView& view, Fragment& out);

}  // namespace urnic::wire
