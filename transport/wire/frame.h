#pragma once

// A received frame in the form that an engine uses: from the Ethernet header to
// the first byte of the transport.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "ras/metrics/rx_verdict.h"
#include "transport/wire/address.h"
#include "transport/wire/checksum.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/framing.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/reader.h"
#include "transport/wire/roce_packet.h"
#include "transport/wire/udp.h"

namespace urnic::wire {

// Pointers into the frame, valid as long as the frame is. On the packet path,
// reuse one: parsing takes 3 ns, making a new view 2.5 more (Zen 5).
struct FrameView {
  const Ethernet* eth = nullptr;
  const VlanTag* vlan = nullptr;     // null in an untagged frame
  Framing framing = Framing::kIpv4;  // of ICMP and TCP: which IP
  // IPv4 TOS or traffic class, ECN in the low two bits; RoCE v1 has no ECN,
  // and zeros there.
  uint8_t tos = 0;
  uint8_t hop_limit = 0;      // or IPv4 TTL
  uint16_t udp_src_port = 0;  // 0 without UDP
  // The IP header or GRH, or the ARP message, and the length that it states.
  // Bytes after it are the padding of a short frame.
  const uint8_t* l3 = nullptr;
  uint32_t l3_bytes = 0;
  // Of a RoCE packet: BTH to ICRC; of RUD: base header to CRC. Of an ICMP
  // message, a TCP segment or a fragment: the bytes after the IP header.
  const uint8_t* payload = nullptr;
  uint32_t payload_bytes = 0;
  Gid src;  // IPv4 addresses as ::ffff:a.b.c.d; unset for ARP
  Gid dst;

  bool ipv6() const { return framing == Framing::kIpv6; }
  bool congestion_experienced() const {
    return (tos & kEcnMask) == kEcnCongestionExperienced;
  }
  std::span<const uint8_t> payload_span() const {
    return {payload, payload_bytes};
  }
};

// Parses a frame up to the header of its wire (wires.h), which the verdict
// names. kAccept: a RoCE packet, of version 2 or 1; continue with
// ParseRoce(out.payload, out.payload_bytes). kArp, kIcmp: an ARP message, or an
// ICMP or ICMPv6 message whose own fields are not yet checked. kIpFragment:
// continue with ParseFragment() (fragment.h). These three are for the host core
// (transport/net). kTcp: continue with ParseTcp() (tcp.h); kRud: with
// ParseRud() (rud.h). Anything else is the reason to drop the frame; `out` is
// unspecified.
//
// Checked: EtherType, one optional 802.1Q tag, IP version, header length (IP
// options and extension headers are refused), the IPv4 header checksum, no
// IPv4-mapped address in IPv6, IP length against the frame, UDP length against
// the IP length (they must agree); of a GRH: version, next header and length.
// The caller checks whose the addresses are.
//
// Not checked: the UDP checksum. Senders of RoCEv2 store zero (rxe does, also
// over IPv6), and where it is not zero, the ICRC covers all that it covers.
[[nodiscard]] inline RxVerdict ParseFrame(const uint8_t* frame, size_t bytes,
                                          FrameView& out);

// ParseFrame() without the fast path for the usual frame.
[[nodiscard]] RxVerdict ParseAnyFrame(std::span<const uint8_t> frame,
                                      FrameView& out);

// The headers of the usual frame.
struct PlainHeaders {
  Ethernet eth;
  Ipv4 ip;
  Udp udp;
};
static_assert(sizeof(PlainHeaders) == 42 && alignof(PlainHeaders) == 1);

// Adjacent fields are compared as one word.
inline bool FieldsAre(const void* at, std::array<uint8_t, 4> mask,
                      std::array<uint8_t, 4> value) {
  uint32_t word;
  std::memcpy(&word, at, sizeof(word));
  return (word & std::bit_cast<uint32_t>(mask)) ==
         std::bit_cast<uint32_t>(value);
}

// The fast path: a valid untagged IPv4 packet for this UDP port, which is that
// of RoCEv2 or RUD. ParseAnyFrame() handles all other frames and names their
// faults.
template <uint16_t kPort>
[[nodiscard]] inline bool ParsePlainFrame(std::span<const uint8_t> frame,
                                          FrameView& out) {
  Reader reader(frame);
  const PlainHeaders* headers = reader.Take<PlainHeaders>();
  if (headers == nullptr) return false;
  const auto& [eth, ip, udp] = *headers;
  const uint32_t ip_bytes = ip.total_length.value();
  // If the length is too small, this wraps to some 4 GB, which no frame has.
  const uint32_t roce_bytes = udp.length.value() - uint32_t{sizeof(Udp)};
  // EtherType and version; fragment and protocol.
  const bool plain =
      FieldsAre(&eth.ether_type, {0xff, 0xff, 0xff, 0},
                {kEtherTypeIpv4 >> 8, kEtherTypeIpv4 & 0xff, 0x45, 0}) &&
      FieldsAre(&ip.flags_fragment,
                {Ipv4::kFragmentMask >> 8, Ipv4::kFragmentMask & 0xff, 0, 0xff},
                {0, 0, 0, kIpProtocolUdp}) &&
      udp.dst_port.value() == kPort &&
      roce_bytes == ip_bytes - uint32_t{sizeof(Ipv4) + sizeof(Udp)} &&
      reader.Limit(roce_bytes) && Ipv4ChecksumHolds(ip);
  if (!plain) return false;
  out.eth = &eth;
  out.vlan = nullptr;
  out.framing = Framing::kIpv4;
  out.tos = ip.tos;
  out.hop_limit = ip.ttl;
  out.udp_src_port = udp.src_port.value();
  out.l3 = reinterpret_cast<const uint8_t*>(&ip);
  out.l3_bytes = ip_bytes;
  out.payload = reader.rest().data();
  out.payload_bytes = roce_bytes;
  out.src = Gid::FromIpv4(ip.src);
  out.dst = Gid::FromIpv4(ip.dst);
  return true;
}

inline RxVerdict ParseFrame(const uint8_t* frame, size_t bytes,
                            FrameView& out) {
  if (ParsePlainFrame<kRoceUdpPort>({frame, bytes}, out))
    return RxVerdict::kAccept;
  return ParseAnyFrame({frame, bytes}, out);
}

}  // namespace urnic::wire
