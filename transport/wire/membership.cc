#include "transport/wire/membership.h"

#include "transport/base/check.h"
#include "transport/wire/append_headers.h"
#include "transport/wire/appender.h"
#include "transport/wire/checksum.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/reader.h"

namespace urnic::wire {
namespace {

constexpr uint8_t kIpProtocolIgmp = 2;
constexpr uint8_t kIpv6HopByHop = 0;
constexpr uint8_t kIgmpQuery = 0x11;
constexpr uint8_t kIgmpV1Report = 0x12;
constexpr uint8_t kIgmpV2Report = 0x16;
constexpr uint8_t kIgmpLeave = 0x17;
constexpr uint8_t kMldQuery = 130;
constexpr uint8_t kMldReport = 131;
constexpr uint8_t kMldDone = 132;

//= RFC 2113 2.1, RFC 2711 2.1: reports and leaves carry the "router alert"
//= option
// The second one is a whole hop-by-hop header.
constexpr uint8_t kIpv4RouterAlert[4] = {0x94, 0x04, 0x00, 0x00};
constexpr uint8_t kIpv6RouterAlert[8] = {
    kIpProtocolIcmpv6, 0, 5, 2, 0, 0, 1, 0};

struct Igmp {
  uint8_t type = 0;
  uint8_t max_response_time = 0;
  Be<uint16_t> checksum;
  Be<uint32_t> group;
};
static_assert(sizeof(Igmp) == 8 && alignof(Igmp) == 1);

struct Mld {
  uint8_t type = 0;
  uint8_t code = 0;
  Be<uint16_t> checksum;
  Be<uint16_t> max_response_delay;
  Be<uint16_t> reserved;
  Gid group;
};
static_assert(sizeof(Mld) == 24 && alignof(Mld) == 1);

template <typename H>
std::span<const uint8_t> BytesOf(const H& header) {
  return {reinterpret_cast<const uint8_t*>(&header), sizeof(header)};
}

// The sender, on Ethernet.
struct Station {
  MacAddress mac;
  std::optional<uint16_t> vlan_tci;
};

//= RFC 2236 2: the format of an IGMP message
//= RFC 2236 9: a report goes to its group, a Leave to all routers
void AppendIgmp(const Station& from, const Gid& local, const Gid& group,
                MembershipMessage message, Appender& out) {
  constexpr uint32_t kAllRouters = 0xe0000002;
  const bool joined = message != MembershipMessage::kLeave;
  const Gid dst = joined ? group : Gid::FromIpv4(kAllRouters);
  AppendLink(from.mac, from.vlan_tci, MulticastMac(dst), kEtherTypeIpv4, out);
  Igmp igmp;
  igmp.type = !joined                                       ? kIgmpLeave
              : message == MembershipMessage::kReportIgmpV1 ? kIgmpV1Report
                                                            : kIgmpV2Report;
  igmp.group = Be<uint32_t>(group.ipv4());
  igmp.checksum = Be<uint16_t>(Checksum(BytesOf(igmp)));
  Ipv4 ip;
  ip.version_ihl = 0x46;  // one word of options
  ip.total_length = Be<uint16_t>(
      uint16_t{sizeof(ip) + sizeof(kIpv4RouterAlert) + sizeof(igmp)});
  ip.flags_fragment = Be<uint16_t>(Ipv4::kDontFragment);
  ip.ttl = 1;
  ip.protocol = kIpProtocolIgmp;
  ip.src = Be<uint32_t>(local.ipv4());
  ip.dst = Be<uint32_t>(dst.ipv4());
  ip.checksum =
      Be<uint16_t>(ChecksumSum().AddHeader(ip).Add(kIpv4RouterAlert).Finish());
  out.Append(ip);
  out.AppendBytes(kIpv4RouterAlert);
  out.Append(igmp);
}

//= RFC 2710 3: the format of an MLD message; a report goes to its group, a Done
//= to all routers
void AppendMld(const Station& from, const Gid& local, const Gid& group,
               bool joined, Appender& out) {
  Gid all_routers;
  all_routers.bytes = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02};
  const Gid dst = joined ? group : all_routers;
  AppendLink(from.mac, from.vlan_tci, MulticastMac(dst), kEtherTypeIpv6, out);
  Mld mld;
  mld.type = joined ? kMldReport : kMldDone;
  mld.group = group;
  mld.checksum = Be<uint16_t>(
      Ipv6UpperChecksum(local, dst, kIpProtocolIcmpv6, BytesOf(mld)));
  AppendIpv6(local, dst, kIpv6HopByHop, 1,
             sizeof(kIpv6RouterAlert) + sizeof(mld), out);
  out.AppendBytes(kIpv6RouterAlert);
  out.Append(mld);
}

//= RFC 3376 4.1.1, RFC 3810 5.1.3: a maximum response code (IGMPv3, MLDv2) in
//= the upper half of its range is a floating-point number
uint32_t DecodeDelay(uint32_t code, uint32_t mantissa_bits) {
  const uint32_t half = 8u << mantissa_bits;
  if (code < half) return code;
  const uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
  const uint32_t exponent = code >> mantissa_bits & 7;
  return (mantissa | 1u << mantissa_bits) << (exponent + 3);
}

RxVerdict ParseIgmp(std::span<const uint8_t> bytes, MembershipInfo& out) {
  constexpr uint32_t kV1DelayTenths = 100;
  constexpr size_t kV3QueryBytes = 12;
  const Igmp* igmp = Reader(bytes).Take<Igmp>();
  if (igmp == nullptr || Checksum(bytes) != 0) return RxVerdict::kBadMembership;
  out.group = Gid::FromIpv4(igmp->group);
  if (igmp->type == kIgmpV1Report || igmp->type == kIgmpV2Report) {
    out.kind = MembershipInfo::Kind::kReport;
  } else if (igmp->type == kIgmpQuery) {
    out.kind = MembershipInfo::Kind::kQuery;
    out.general = igmp->group.value() == 0;
    //= RFC 2236 4: in a query of version 1, the maximum response time is zero
    out.igmp_v1 = igmp->max_response_time == 0 && bytes.size() == sizeof(Igmp);
    const uint32_t code = igmp->max_response_time;
    const uint32_t tenths = out.igmp_v1 ? kV1DelayTenths
                            : bytes.size() >= kV3QueryBytes
                                ? DecodeDelay(code, 4)
                                : code;
    out.max_delay = Duration::Milliseconds(100) * tenths;
    if (!out.general && !out.group.is_multicast()) {
      return RxVerdict::kBadMembership;
    }
  }
  return RxVerdict::kMembership;
}

RxVerdict ParseIgmpOverIpv4(Reader reader, MembershipInfo& out) {
  const std::span<const uint8_t> packet = reader.rest();
  const Ipv4* ip = reader.Take<Ipv4>();
  if (ip == nullptr || ip->version() != 4 || ip->protocol != kIpProtocolIgmp) {
    return RxVerdict::kNotRoce;
  }
  const uint32_t header = ip->header_bytes();
  const uint32_t total = ip->total_length.value();
  if (header < sizeof(Ipv4) || total < header || packet.size() < total ||
      ip->is_fragment() || Checksum(packet.first(header)) != 0) {
    return RxVerdict::kBadMembership;
  }
  return ParseIgmp(packet.subspan(header, total - header), out);
}

RxVerdict ParseMldOverIpv6(Reader reader, MembershipInfo& out) {
  constexpr size_t kV2QueryBytes = 28;
  const Ipv6* ip = reader.Take<Ipv6>();
  if (ip == nullptr || ip->version() != 6 || ip->next_header != kIpv6HopByHop ||
      !reader.Limit(ip->payload_length.value())) {
    return RxVerdict::kNotRoce;
  }
  // Next header, then the length in units of 8 bytes after the first.
  const std::span<const uint8_t> options = reader.rest();
  if (options.size() < 8 || options[0] != kIpProtocolIcmpv6 ||
      !reader.Skip(8 * (size_t{options[1]} + 1))) {
    return RxVerdict::kNotRoce;
  }
  const std::span<const uint8_t> bytes = reader.rest();
  const Mld* mld = reader.Take<Mld>();
  if (bytes.empty() || bytes[0] < kMldQuery || bytes[0] > kMldDone) {
    return RxVerdict::kNotRoce;
  }
  //= RFC 2710 5: a message is valid only with a link-local source, at least 24
  //= bytes and a correct checksum
  if (mld == nullptr || !ip->src.is_link_local() ||
      Ipv6UpperChecksum(ip->src, ip->dst, kIpProtocolIcmpv6, bytes) != 0) {
    return RxVerdict::kBadMembership;
  }
  out.ipv6 = true;
  out.group = mld->group;
  if (mld->type == kMldReport) out.kind = MembershipInfo::Kind::kReport;
  if (mld->type != kMldQuery) return RxVerdict::kMembership;
  out.kind = MembershipInfo::Kind::kQuery;
  out.general = mld->group == Gid{};
  const uint32_t code = mld->max_response_delay.value();
  out.max_delay = Duration::Milliseconds(
      bytes.size() >= kV2QueryBytes ? DecodeDelay(code, 12) : code);
  return out.general || mld->group.is_multicast() ? RxVerdict::kMembership
                                                  : RxVerdict::kBadMembership;
}

}  // namespace

size_t EmitMembership(const MacAddress& mac, const Gid& local, const Gid& group,
                      MembershipMessage message, std::span<uint8_t> out,
                      const std::optional<uint16_t>& vlan_tci) {
  URNIC_CHECK(out.size() >= kMembershipFrameBytes);
  URNIC_CHECK(group.is_multicast() && local.is_ipv4() == group.is_ipv4());
  Appender frame(out.data());
  const Station from{mac, vlan_tci};
  if (group.is_ipv4()) {
    AppendIgmp(from, local, group, message, frame);
  } else {
    AppendMld(from, local, group, message != MembershipMessage::kLeave, frame);
  }
  return PadToMinimum(frame);
}

RxVerdict ParseMembership(std::span<const uint8_t> frame, MembershipInfo& out) {
  out = MembershipInfo();
  Reader reader(frame);
  const Ethernet* eth = reader.Take<Ethernet>();
  if (eth == nullptr) return RxVerdict::kNotRoce;
  uint16_t ether_type = eth->ether_type.value();
  if (ether_type == kEtherTypeVlan) {
    const VlanTag* tag = reader.Take<VlanTag>();
    if (tag == nullptr) return RxVerdict::kNotRoce;
    ether_type = tag->ether_type.value();
  }
  if (ether_type == kEtherTypeIpv4) return ParseIgmpOverIpv4(reader, out);
  if (ether_type == kEtherTypeIpv6) return ParseMldOverIpv6(reader, out);
  return RxVerdict::kNotRoce;
}

}  // namespace urnic::wire
