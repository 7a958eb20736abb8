#pragma once

// The result of the negotiation by SYNs.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "transport/wire/tcp.h"

namespace urnic::tcp {

struct Agreed {
  uint16_t mss = 0;  // what the peer receives
  bool timestamps = false;
  bool sack = false;
  bool ecn = false;
  bool urnic = false;
  std::optional<uint8_t> window_shift = {};  // the peer's; unset: no scaling
  friend bool operator==(const Agreed&, const Agreed&) = default;
};

// What our SYN offers, or what a listener is willing to agree to.
struct Offer {
  uint16_t mss = 1460;  // what we receive: a packet of IP without the headers
                        // of IP and TCP. The peer never gets more either
  //= RFC 9293 3.7.1: without an MSS option, the MSS of the peer is 536 bytes
  //= over IPv4 and 1220 bytes over IPv6
  uint16_t default_mss = wire::kTcpDefaultMssIpv4;
  bool timestamps = true;
  bool sack = true;
  bool ecn = false;
  bool urnic = true;

  // `syn`: the peer's SYN, or its SYN-ACK.
  Agreed With(const wire::TcpSegment& syn) const {
    // An MSS of zero would stop the connection. This is the payload of the
    // smallest packet that IPv4 must carry when TCP has all options.
    constexpr uint16_t kMinMss = 68 - 20 - 20;
    const wire::TcpOptions& theirs = syn.options;
    Agreed agreed;
    agreed.mss = std::max(theirs.mss.value_or(default_mss), kMinMss);
    agreed.timestamps = timestamps && theirs.timestamps.has_value();
    agreed.sack = sack && theirs.sack_permitted;
    agreed.urnic = urnic && theirs.urnic;
    //= RFC 3168 6.1.1: a SYN asks for ECN with ECE and CWR, and a SYN-ACK
    //= agrees with ECE alone
    const int flags = syn.flags & (wire::kTcpEce | wire::kTcpCwr);
    agreed.ecn = ecn && flags == (syn.Has(wire::kTcpAck)
                                      ? wire::kTcpEce
                                      : wire::kTcpEce | wire::kTcpCwr);
    //= RFC 7323 2.3: a shift count above 14 is treated as 14
    if (theirs.window_shift) {
      agreed.window_shift =
          std::min(*theirs.window_shift, wire::kTcpMaxWindowShift);
    }
    return agreed;
  }
};

}  // namespace urnic::tcp
