#pragma once

// The answer to a ping of any length that IP can carry. A message is in pieces,
// one for each fragment that it arrived in. The answer is fragmented again.

#include <cstddef>
#include <cstdint>
#include <span>

#include "ras/metrics/rx_verdict.h"
#include "transport/wire/address.h"
#include "transport/wire/appender.h"
#include "transport/wire/frame.h"
#include "transport/wire/icmp.h"
#include "transport/wire/neighbor.h"

namespace urnic::wire {

// An ICMP or ICMPv6 message, in order. Each piece but the last has a multiple
// of 8 bytes.
using MessagePieces = std::span<const std::span<const uint8_t>>;

// Checks a message that arrived in fragments; `last` is the frame of one of
// them. kIcmp: the checksum is right, and `echo_request` says whether the
// message needs an answer. Neighbour discovery is refused.
[[nodiscard]] RxVerdict ParseReassembled(const FrameView& last,
                                         MessagePieces message,
                                         bool& echo_request);

class EchoReply {
 public:
  // The answer of `self` to a kEchoRequest for self.gid. `request`: one of its
  // frames; `message`: all of it, outlives this object. If the request arrived
  // in fragments, the answer is sent in fragments that are not longer than
  // those, because the interface's own MTU may be below `mtu`. An answer is
  // also fragmented if its IP packet is longer than `mtu`. The fragments have
  // this identification.
  // REQUIRES: mtu >= 68; the message has an IcmpEcho
  EchoReply(const NeighborSelf& self, const FrameView& request,
            MessagePieces message, uint32_t mtu, uint32_t identification);

  bool done() const { return at_ == bytes_; }
  // Writes the next packet. Returns the frame's length; 0: `out` is too small.
  // REQUIRES: !done()
  [[nodiscard]] size_t WriteNext(std::span<uint8_t> out);

 private:
  bool ipv6() const { return !self_.gid.is_ipv4(); }
  void AppendHeaders(uint32_t bytes, Appender& out) const;
  void AppendMessage(uint32_t bytes, Appender& out) const;

  const NeighborSelf self_;
  const MacAddress mac_;
  const Gid dst_;
  const MessagePieces message_;
  const uint32_t identification_;
  uint32_t bytes_ = 0;  // of the message
  uint32_t per_frame_;  // of them, in each packet
  bool fragments_ = false;
  uint32_t at_ = 0;  // bytes written so far
  IcmpEcho header_;  // instead of the request's
};

}  // namespace urnic::wire
