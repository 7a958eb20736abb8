#include "transport/wire/too_big.h"

#include "transport/wire/icmp.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/reader.h"
#include "transport/wire/roce_packet.h"
#include "transport/wire/udp.h"

namespace urnic::wire {
namespace {

bool IsQuoteOfRoce(Reader reader) {
  const Udp* udp = reader.Take<Udp>();
  return udp != nullptr && udp->dst_port.value() == kRoceUdpPort;
}

// Our packets have no options and are not fragments.
bool ParseQuotedIpv4(Reader reader, TooBigInfo& out) {
  const Ipv4* ip = reader.Take<Ipv4>();
  if (ip == nullptr || ip->version_ihl != 0x45 || ip->is_fragment() ||
      ip->protocol != kIpProtocolUdp) {
    return false;
  }
  out.src = Gid::FromIpv4(ip->src);
  out.dst = Gid::FromIpv4(ip->dst);
  out.packet_bytes = ip->total_length.value();
  return IsQuoteOfRoce(reader);
}

bool ParseQuotedIpv6(Reader reader, TooBigInfo& out) {
  const Ipv6* ip = reader.Take<Ipv6>();
  //= RFC 4291 2.5.5.2: an IPv4-mapped address stands for an IPv4 node, so the
  //= header of an IPv6 packet never has one
  if (ip == nullptr || ip->version() != 6 ||
      ip->next_header != kIpProtocolUdp || ip->src.is_ipv4() ||
      ip->dst.is_ipv4()) {
    return false;
  }
  out.src = ip->src;
  out.dst = ip->dst;
  out.packet_bytes = uint32_t{sizeof(Ipv6)} + ip->payload_length.value();
  return IsQuoteOfRoce(reader);
}

}  // namespace

bool ParseTooBig(const FrameView& frame, TooBigInfo& out) {
  out = TooBigInfo();
  Reader reader(frame.payload_span());
  const IcmpTooBig* message = reader.Take<IcmpTooBig>();
  if (message == nullptr) return false;
  out.mtu = message->mtu.value();
  if (frame.ipv6()) {
    return message->header.type == kIcmpv6PacketTooBig &&
           ParseQuotedIpv6(reader, out);
  }
  out.mtu &= 0xffff;
  return message->header.type == kIcmpUnreachable &&
         message->header.code == kIcmpFragmentationNeeded &&
         ParseQuotedIpv4(reader, out);
}

}  // namespace urnic::wire
