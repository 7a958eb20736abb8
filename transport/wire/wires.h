#pragma once

// What is spoken in a frame, and how it is known: the table that steering goes
// by. A new wire is a row here, a verdict of ParseFrame() with what is checked
// of its headers, and a branch in datapath/engine/steering.h.

#include <cstdint>

#include "transport/wire/ethernet.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/udp.h"

namespace urnic::wire {

enum class Wire : uint8_t {
  kNone,  // nothing that is spoken here
  // The host's own.
  kArp,
  kIcmp,  // and ICMPv6
  // Of flows.
  kRoce,  // both versions
};

// What carries it, and gives it a number.
enum class Carrier : uint8_t {
  kEthernet,  // EtherType
  kIpv4,      // protocol
  kIpv6,      // next header
  kUdp,       // destination port
};

struct WireRow {
  Carrier carrier;
  uint16_t number;
  Wire wire;
};

inline constexpr WireRow kWires[] = {
    {Carrier::kEthernet, kEtherTypeArp, Wire::kArp},
    {Carrier::kEthernet, kEtherTypeRoceV1, Wire::kRoce},
    {Carrier::kIpv4, kIpProtocolIcmp, Wire::kIcmp},
    {Carrier::kIpv6, kIpProtocolIcmpv6, Wire::kIcmp},
    {Carrier::kUdp, kRoceUdpPort, Wire::kRoce},
};

constexpr Wire FindWire(Carrier carrier, uint16_t number) {
  for (const WireRow& row : kWires) {
    if (row.carrier == carrier && row.number == number) return row.wire;
  }
  return Wire::kNone;
}

}  // namespace urnic::wire
