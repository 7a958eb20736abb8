#include "transport/wire/header_template.h"

#include "transport/base/check.h"
#include "transport/wire/appender.h"
#include "transport/wire/roce_packet.h"

namespace urnic::wire {
namespace {

Ipv4 MakeIpv4(const PathHeaders& path) {
  Ipv4 ip;
  ip.tos = path.traffic_class;
  ip.identification = Be<uint16_t>(path.ipv4_identification);
  ip.flags_fragment = Be<uint16_t>(Ipv4::kDontFragment);
  ip.ttl = path.hop_limit;
  ip.protocol = kIpProtocolUdp;
  ip.src = Be<uint32_t>(path.src.ipv4());
  ip.dst = Be<uint32_t>(path.dst.ipv4());
  return ip;
}

Framing FramingOf(const PathHeaders& path) {
  if (path.roce_v1) return Framing::kGrh;
  return path.src.is_ipv4() ? Framing::kIpv4 : Framing::kIpv6;
}

uint16_t EtherTypeOf(Framing framing) {
  switch (framing) {
    case Framing::kIpv4:
      return kEtherTypeIpv4;
    case Framing::kIpv6:
      return kEtherTypeIpv6;
    case Framing::kGrh:
      break;
  }
  return kEtherTypeRoceV1;
}

// An IPv6 header or a GRH.
Ipv6 MakeIpv6(const PathHeaders& path) {
  Ipv6 ip;
  ip.version_class_flow =
      Ipv6::MakeVersionClassFlow(path.traffic_class, path.flow_label);
  ip.next_header = path.roce_v1 ? kGrhNextBth : kIpProtocolUdp;
  ip.hop_limit = path.hop_limit;
  ip.src = path.src;
  ip.dst = path.dst;
  return ip;
}

}  // namespace

HeaderTemplate::HeaderTemplate(const PathHeaders& path)
    : framing_(FramingOf(path)) {
  static_assert(sizeof(Ethernet) + sizeof(VlanTag) + sizeof(Ipv6) +
                    sizeof(Udp) <=
                kMaxBytes);
  static_assert(sizeof(Ethernet) + sizeof(Ipv4) + sizeof(Udp) <= kFirstCopy);
  URNIC_CHECK(path.src.is_ipv4() == path.dst.is_ipv4());
  const Be<uint16_t> ip_type(EtherTypeOf(framing_));
  Appender out(bytes_.data());
  const Be<uint16_t> first_type =
      path.vlan_tci ? Be<uint16_t>(kEtherTypeVlan) : ip_type;
  out.Append(Ethernet{path.dst_mac, path.src_mac, first_type});
  if (path.vlan_tci) {
    out.Append(VlanTag{Be<uint16_t>(*path.vlan_tci), ip_type});
  }
  ip_offset_ = static_cast<uint8_t>(out.size());
  if (framing_ != Framing::kIpv4) {
    out.Append(MakeIpv6(path));
  } else {
    const Ipv4 ip = MakeIpv4(path);
    ipv4_sum_ = static_cast<uint16_t>(~ChecksumSum().AddHeader(ip).Finish());
    out.Append(ip);
  }
  if (framing_ != Framing::kGrh) {
    Udp udp;
    udp.src_port = Be<uint16_t>(path.udp_src_port);
    udp.dst_port = Be<uint16_t>(kRoceUdpPort);
    out.Append(udp);
  }
  size_ = static_cast<uint8_t>(out.size());
}

void HeaderTemplate::WriteIp(uint8_t* out, uint8_t protocol, uint8_t ecn,
                             uint16_t bytes) const {
  URNIC_CHECK(framing_ != Framing::kGrh);
  std::memcpy(out, bytes_.data(), kMaxBytes);
  uint8_t* const ip = out + ip_offset_;
  if (framing_ == Framing::kIpv6) {
    auto& header = *reinterpret_cast<Ipv6*>(ip);
    const auto traffic_class =
        static_cast<uint8_t>((header.traffic_class() & ~kEcnMask) | ecn);
    header.version_class_flow =
        Ipv6::MakeVersionClassFlow(traffic_class, header.flow_label());
    header.next_header = protocol;
    header.payload_length = Be<uint16_t>(bytes);
    return;
  }
  auto& header = *reinterpret_cast<Ipv4*>(ip);
  header.tos = static_cast<uint8_t>((header.tos & ~kEcnMask) | ecn);
  header.protocol = protocol;
  header.total_length =
      Be<uint16_t>(static_cast<uint16_t>(bytes + sizeof(Ipv4)));
  // The template's field is zero.
  header.checksum = Be<uint16_t>(Checksum({ip, sizeof(Ipv4)}));
}

}  // namespace urnic::wire
