#pragma once

// The wires (protocols of frames) and how to recognize them: the table that
// steering uses. A new wire needs a row here, a verdict and header checks in
// ParseFrame(), and a branch in datapath/engine/steering.h.

#include <cstdint>

#include "transport/wire/ethernet.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/udp.h"

namespace urnic::wire {

enum class Wire : uint8_t {
  kNone,  // none of our wires
  // Wires of the host itself.
  kArp,
  kIcmp,  // and ICMPv6
  // Wires of flows.
  kRoce,  // both versions
  kTcp,   // iWARP
  kRud,
};

// The protocol that carries the wire and numbers it.
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
    {Carrier::kIpv4, kIpProtocolTcp, Wire::kTcp},
    {Carrier::kIpv6, kIpProtocolIcmpv6, Wire::kIcmp},
    {Carrier::kIpv6, kIpProtocolTcp, Wire::kTcp},
    {Carrier::kUdp, kRoceUdpPort, Wire::kRoce},
    {Carrier::kUdp, kRudUdpPort, Wire::kRud},
};

constexpr Wire FindWire(Carrier carrier, uint16_t number) {
  for (const WireRow& row : kWires) {
    if (row.carrier == carrier && row.number == number) return row.wire;
  }
  return Wire::kNone;
}

}  // namespace urnic::wire
