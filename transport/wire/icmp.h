#pragma once

// The parts of ICMP and ICMPv6 that make a host reachable and answer pings.

#include <cstddef>
#include <cstdint>

#include "transport/wire/address.h"
#include "transport/wire/be.h"

namespace urnic::wire {

//= RFC 792, RFC 4443 2.1: every ICMP message begins with type, code and
//= checksum
// The ICMPv6 checksum covers an IPv6 pseudo header, the ICMP one does not.
struct IcmpHeader {
  uint8_t type = 0;
  uint8_t code = 0;
  Be<uint16_t> checksum;
};
static_assert(sizeof(IcmpHeader) == 4 && alignof(IcmpHeader) == 1);

inline constexpr uint8_t kIcmpEchoReply = 0;
inline constexpr uint8_t kIcmpUnreachable = 3;
inline constexpr uint8_t kIcmpFragmentationNeeded = 4;  // a code of it
inline constexpr uint8_t kIcmpEchoRequest = 8;
inline constexpr uint8_t kIcmpv6PacketTooBig = 2;
inline constexpr uint8_t kIcmpv6EchoRequest = 128;
inline constexpr uint8_t kIcmpv6EchoReply = 129;
inline constexpr uint8_t kIcmpv6NeighborSolicitation = 135;
inline constexpr uint8_t kIcmpv6NeighborAdvertisement = 136;

// Echo request and reply of both; the data follows.
struct IcmpEcho {
  IcmpHeader header;
  Be<uint16_t> identifier;
  Be<uint16_t> sequence;
};
static_assert(sizeof(IcmpEcho) == 8 && alignof(IcmpEcho) == 1);

//= RFC 1191 4: the message "fragmentation needed" has 16 unused bits and an MTU
//= of 16 bits
//= RFC 4443 3.2: the message "packet too big" has an MTU of 32 bits
// The packet follows.
struct IcmpTooBig {
  IcmpHeader header;
  Be<uint32_t> mtu;
};
static_assert(sizeof(IcmpTooBig) == 8 && alignof(IcmpTooBig) == 1);

//= RFC 4861 4.3: the format of a neighbour solicitation, which options follow
//= RFC 4861 4.4: the format of a neighbour advertisement, which options follow
// The flags are an advertisement's, reserved in a solicitation.
struct NeighborMessage {
  IcmpHeader header;
  Be<uint32_t> flags;
  Gid target;

  static constexpr uint32_t kFromRouter = 0x80000000;
  static constexpr uint32_t kSolicited = 0x40000000;
  static constexpr uint32_t kOverride = 0x20000000;
};
static_assert(sizeof(NeighborMessage) == 24 && alignof(NeighborMessage) == 1);
static_assert(offsetof(NeighborMessage, target) == 8);

//= RFC 4861 4.6: every option begins with its type and its length in units of 8
//= bytes; length 0 is malformed
struct NeighborOption {
  uint8_t type = 0;
  uint8_t units = 0;
};
static_assert(sizeof(NeighborOption) == 2);

inline constexpr uint8_t kNeighborSourceLinkLayer = 1;
inline constexpr uint8_t kNeighborTargetLinkLayer = 2;

//= RFC 4861 4.6.1: the format of the link-layer address option (for Ethernet)
struct LinkLayerOption {
  NeighborOption option;
  MacAddress mac;
};
static_assert(sizeof(LinkLayerOption) == 8 && alignof(LinkLayerOption) == 1);

//= RFC 4861 7.1.1, 7.1.2: a message whose hop limit is not 255 came through a
//= router and is ignored
inline constexpr uint8_t kNeighborHopLimit = 255;

}  // namespace urnic::wire
