#include "transport/wire/membership.h"

#include "transport/base/check.h"
#include "transport/wire/appender.h"
#include "transport/wire/checksum.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"

namespace urnic::wire {
namespace {

constexpr uint8_t kIpProtocolIgmp = 2;
constexpr uint8_t kIpv6HopByHop = 0;
constexpr uint8_t kIgmpV2Report = 0x16;
constexpr uint8_t kIgmpLeave = 0x17;
constexpr uint8_t kMldReport = 131;
constexpr uint8_t kMldDone = 132;

// RFC 2113 and RFC 2711: "router alert", which both protocols demand; the
// latter as a whole hop-by-hop header.
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

void AppendLink(const MacAddress& mac, const Gid& dst, uint16_t ether_type,
                Appender& out) {
  Ethernet eth;
  eth.dst = MulticastMac(dst);
  eth.src = mac;
  eth.ether_type = Be<uint16_t>(ether_type);
  out.Append(eth);
}

//= RFC2236 s2, s9
void AppendIgmp(const MacAddress& mac, const Gid& local, const Gid& group,
                bool joined, Appender& out) {
  constexpr uint32_t kAllRouters = 0xe0000002;
  const Gid dst = joined ? group : Gid::FromIpv4(kAllRouters);
  AppendLink(mac, dst, kEtherTypeIpv4, out);
  Igmp igmp;
  igmp.type = joined ? kIgmpV2Report : kIgmpLeave;
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

//= RFC2710 s3
void AppendMld(const MacAddress& mac, const Gid& local, const Gid& group,
               bool joined, Appender& out) {
  Gid all_routers;
  all_routers.bytes = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02};
  const Gid dst = joined ? group : all_routers;
  AppendLink(mac, dst, kEtherTypeIpv6, out);
  Mld mld;
  mld.type = joined ? kMldReport : kMldDone;
  mld.group = group;
  mld.checksum = Be<uint16_t>(
      Ipv6UpperChecksum(local, dst, kIpProtocolIcmpv6, BytesOf(mld)));
  Ipv6 ip;
  ip.version_class_flow = Ipv6::MakeVersionClassFlow(0, 0);
  ip.payload_length =
      Be<uint16_t>(uint16_t{sizeof(kIpv6RouterAlert) + sizeof(mld)});
  ip.next_header = kIpv6HopByHop;
  ip.hop_limit = 1;
  ip.src = local;
  ip.dst = dst;
  out.Append(ip);
  out.AppendBytes(kIpv6RouterAlert);
  out.Append(mld);
}

}  // namespace

size_t EmitMembership(const MacAddress& mac, const Gid& local, const Gid& group,
                      bool joined, std::span<uint8_t> out) {
  URNIC_CHECK(out.size() >= kMembershipFrameBytes);
  URNIC_CHECK(group.is_multicast() && local.is_ipv4() == group.is_ipv4());
  Appender frame(out.data());
  if (group.is_ipv4()) {
    AppendIgmp(mac, local, group, joined, frame);
  } else {
    AppendMld(mac, local, group, joined, frame);
  }
  if (frame.size() < kEthernetMinBytes) {
    frame.AppendZeros(kEthernetMinBytes - frame.size());
  }
  return frame.size();
}

}  // namespace urnic::wire
