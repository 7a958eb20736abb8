#include "transport/wire/too_big.h"

#include "transport/wire/icmp.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/reader.h"
#include "transport/wire/roce_packet.h"
#include "transport/wire/udp.h"

namespace urnic::wire {
namespace {

//= RFC 792: a message quotes the 64 bits behind the IP header; of a TCP segment
//= these are the ports and the sequence number
struct TcpQuote {
  Be<uint16_t> src_port;
  Be<uint16_t> dst_port;
  Be<uint32_t> seq;
};
static_assert(sizeof(TcpQuote) == 8 && alignof(TcpQuote) == 1);

// What is behind the quoted IP header.
bool ParseQuoted(Reader reader, uint8_t protocol, TooBigInfo& out) {
  if (protocol == kIpProtocolUdp) {
    const Udp* udp = reader.Take<Udp>();
    return udp != nullptr && udp->dst_port.value() == kRoceUdpPort;
  }
  const TcpQuote* quote =
      protocol == kIpProtocolTcp ? reader.Take<TcpQuote>() : nullptr;
  if (quote == nullptr) return false;
  out.tcp = true;
  out.src_port = quote->src_port.value();
  out.dst_port = quote->dst_port.value();
  out.seq = quote->seq.value();
  return true;
}

// Our packets have no options and are not fragments.
bool ParseQuotedIpv4(Reader reader, TooBigInfo& out) {
  const Ipv4* ip = reader.Take<Ipv4>();
  if (ip == nullptr || ip->version_ihl != 0x45 || ip->is_fragment()) {
    return false;
  }
  out.src = Gid::FromIpv4(ip->src);
  out.dst = Gid::FromIpv4(ip->dst);
  out.packet_bytes = ip->total_length.value();
  return ParseQuoted(reader, ip->protocol, out);
}

bool ParseQuotedIpv6(Reader reader, TooBigInfo& out) {
  const Ipv6* ip = reader.Take<Ipv6>();
  //= RFC 4291 2.5.5.2: an IPv4-mapped address stands for an IPv4 node, so the
  //= header of an IPv6 packet never has one
  if (ip == nullptr || ip->version() != 6 || ip->src.is_ipv4() ||
      ip->dst.is_ipv4()) {
    return false;
  }
  out.src = ip->src;
  out.dst = ip->dst;
  out.packet_bytes = uint32_t{sizeof(Ipv6)} + ip->payload_length.value();
  return ParseQuoted(reader, ip->next_header, out);
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
