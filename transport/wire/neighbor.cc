#include "transport/wire/neighbor.h"

#include <algorithm>

#include "transport/base/check.h"
#include "transport/wire/appender.h"
#include "transport/wire/arp.h"
#include "transport/wire/icmp.h"
#include "transport/wire/reader.h"

namespace urnic::wire {
namespace {

constexpr uint8_t kReplyHopLimit = 64;

bool IsUnspecified(const Gid& gid) {
  return gid == Gid() || gid == Gid::FromIpv4(0);
}

// A binding of a group address, or of nobody, would poison the resolver.
void SetOwner(const Gid& owner, const MacAddress& mac, NeighborInfo& out) {
  if (IsUnspecified(owner) || owner.is_multicast() || mac.is_group()) return;
  out.has_owner = true;
  out.owner = owner;
  out.owner_mac = mac;
}

//= RFC 4291 2.7.1: who asks for an address asks the group ff02::1:ff with its
//= last three bytes
Gid SolicitedNode(const Gid& target) {
  Gid group;
  group.bytes = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01, 0xff};
  std::copy(&target.bytes[13], &target.bytes[16], &group.bytes[13]);
  return group;
}

Gid AllNodes() {
  Gid group;
  group.bytes = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01};
  return group;
}

// Walks over the options for the link-layer address of `type`. False when one
// is malformed: the whole message is then ignored.
bool FindLinkLayer(Reader options, uint8_t type,
                   std::optional<MacAddress>& mac) {
  while (!options.rest().empty()) {
    Reader one = options;
    const NeighborOption* option = one.Take<NeighborOption>();
    if (option == nullptr || option->units == 0) return false;
    if (!options.Skip(option->units * size_t{8})) return false;
    if (option->type != type || option->units != 1) continue;
    const MacAddress* address = one.Take<MacAddress>();
    if (address != nullptr) mac = *address;
  }
  return true;
}

//= RFC 4861 7.1.1: hop limit 255, code 0, no group as target; from an
//= unspecified source only to the solicited-node group and without a source
//= link-layer address
RxVerdict ParseSolicitation(const FrameView& frame, const NeighborMessage& m,
                            Reader options, NeighborInfo& out) {
  std::optional<MacAddress> mac;
  if (!FindLinkLayer(options, kNeighborSourceLinkLayer, mac)) {
    return RxVerdict::kBadIcmp;
  }
  if (IsUnspecified(frame.src) &&
      (mac.has_value() || !(frame.dst == SolicitedNode(m.target)))) {
    return RxVerdict::kBadIcmp;
  }
  out.kind = NeighborKind::kSolicit;
  out.asked = m.target;
  if (mac) SetOwner(frame.src, *mac, out);
  return RxVerdict::kIcmp;
}

//= RFC 4861 7.1.2: the same; and what is sent to a group must not claim to be
//= solicited
RxVerdict ParseAdvertisement(const FrameView& frame, const NeighborMessage& m,
                             Reader options, NeighborInfo& out) {
  const uint32_t flags = m.flags.value();
  std::optional<MacAddress> mac;
  if (!FindLinkLayer(options, kNeighborTargetLinkLayer, mac)) {
    return RxVerdict::kBadIcmp;
  }
  out.solicited = (flags & NeighborMessage::kSolicited) != 0;
  out.may_override = (flags & NeighborMessage::kOverride) != 0;
  if (out.solicited && frame.dst.is_multicast()) return RxVerdict::kBadIcmp;
  out.kind = NeighborKind::kAdvertise;
  // A solicited answer to one host may leave the option out: then the frame's
  // own source speaks for itself.
  SetOwner(m.target, mac.value_or(frame.eth->src), out);
  return RxVerdict::kIcmp;
}

RxVerdict ParseNeighborMessage(const FrameView& frame, NeighborInfo& out) {
  Reader reader(frame.payload_span());
  const NeighborMessage* m = reader.Take<NeighborMessage>();
  if (m == nullptr || m->header.code != 0 ||
      frame.hop_limit != kNeighborHopLimit || m->target.is_multicast()) {
    return RxVerdict::kBadIcmp;
  }
  return m->header.type == kIcmpv6NeighborSolicitation
             ? ParseSolicitation(frame, *m, reader, out)
             : ParseAdvertisement(frame, *m, reader, out);
}

RxVerdict ParseEcho(const FrameView& frame, NeighborInfo& out) {
  Reader reader(frame.payload_span());
  if (reader.Take<IcmpEcho>() == nullptr) return RxVerdict::kBadIcmp;
  // Nobody is there to be answered.
  if (IsUnspecified(frame.src) || frame.src.is_multicast()) {
    return RxVerdict::kBadIcmp;
  }
  out.kind = NeighborKind::kEchoRequest;
  return RxVerdict::kIcmp;
}

void AppendLink(const NeighborSelf& self, const MacAddress& dst,
                uint16_t ether_type, Appender& out) {
  if (self.vlan_tci) {
    out.Append(Ethernet{dst, self.mac, Be<uint16_t>(kEtherTypeVlan)});
    out.Append(VlanTag{Be<uint16_t>(*self.vlan_tci), Be<uint16_t>(ether_type)});
  } else {
    out.Append(Ethernet{dst, self.mac, Be<uint16_t>(ether_type)});
  }
}

size_t PadToMinimum(Appender& out) {
  if (out.size() < kEthernetMinBytes) {
    out.AppendZeros(kEthernetMinBytes - out.size());
  }
  return out.size();
}

size_t EmitArp(const NeighborSelf& self, uint16_t operation,
               const MacAddress& frame_dst, const MacAddress& target_mac,
               const Gid& target, std::span<uint8_t> bytes) {
  Arp arp;
  arp.hardware_type = Be<uint16_t>(kArpHardwareEthernet);
  arp.protocol_type = Be<uint16_t>(kEtherTypeIpv4);
  arp.operation = Be<uint16_t>(operation);
  arp.sender_mac = self.mac;
  arp.sender_ip = Be<uint32_t>(self.gid.ipv4());
  arp.target_mac = target_mac;
  arp.target_ip = Be<uint32_t>(target.ipv4());
  Appender out(bytes.data());
  AppendLink(self, frame_dst, kEtherTypeArp, out);
  out.Append(arp);
  return PadToMinimum(out);
}

void AppendIpv6(const Gid& src, const Gid& dst, uint8_t hop_limit,
                size_t payload_bytes, Appender& out) {
  Ipv6 ip;
  ip.version_class_flow = Ipv6::MakeVersionClassFlow(0, 0);
  ip.payload_length = Be<uint16_t>(static_cast<uint16_t>(payload_bytes));
  ip.next_header = kIpProtocolIcmpv6;
  ip.hop_limit = hop_limit;
  ip.src = src;
  ip.dst = dst;
  out.Append(ip);
}

// A neighbour message with one link-layer option; `type` says which.
size_t EmitNeighborMessage(const NeighborSelf& self, uint8_t type,
                           const MacAddress& frame_dst, const Gid& dst,
                           uint32_t flags, const Gid& target,
                           std::span<uint8_t> bytes) {
  struct Message {
    NeighborMessage message;
    LinkLayerOption option;
  } m;
  m.message.header.type = type;
  m.message.flags = Be<uint32_t>(flags);
  m.message.target = target;
  m.option.option.type = type == kIcmpv6NeighborSolicitation
                             ? kNeighborSourceLinkLayer
                             : kNeighborTargetLinkLayer;
  m.option.option.units = sizeof(LinkLayerOption) / 8;
  m.option.mac = self.mac;
  m.message.header.checksum = Be<uint16_t>(
      Ipv6UpperChecksum(self.gid, dst, kIpProtocolIcmpv6,
                        {reinterpret_cast<const uint8_t*>(&m), sizeof(m)}));
  Appender out(bytes.data());
  AppendLink(self, frame_dst, kEtherTypeIpv6, out);
  AppendIpv6(self.gid, dst, kNeighborHopLimit, sizeof(m), out);
  out.Append(m);
  return PadToMinimum(out);
}

void AppendIpv4(const Gid& src, const Gid& dst, size_t payload_bytes,
                Appender& out) {
  Ipv4 ip;
  ip.total_length =
      Be<uint16_t>(static_cast<uint16_t>(sizeof(Ipv4) + payload_bytes));
  ip.flags_fragment = Be<uint16_t>(Ipv4::kDontFragment);
  ip.ttl = kReplyHopLimit;
  ip.protocol = kIpProtocolIcmp;
  ip.src = Be<uint32_t>(src.ipv4());
  ip.dst = Be<uint32_t>(dst.ipv4());
  ip.checksum = Be<uint16_t>(ChecksumSum().AddHeader(ip).Finish());
  out.Append(ip);
}

}  // namespace

RxVerdict ParseArp(const FrameView& frame, NeighborInfo& out) {
  out = NeighborInfo();
  Reader reader({frame.l3, frame.l3_bytes});
  const Arp* arp = reader.Take<Arp>();
  if (arp == nullptr || arp->hardware_type.value() != kArpHardwareEthernet ||
      arp->protocol_type.value() != kEtherTypeIpv4 ||
      arp->hardware_bytes != sizeof(MacAddress) ||
      arp->protocol_bytes != sizeof(uint32_t)) {
    return RxVerdict::kBadArp;
  }
  SetOwner(Gid::FromIpv4(arp->sender_ip), arp->sender_mac, out);
  switch (arp->operation.value()) {
    case kArpRequest:
      out.kind = NeighborKind::kSolicit;
      out.asked = Gid::FromIpv4(arp->target_ip);
      return RxVerdict::kArp;
    case kArpReply:
      out.kind = NeighborKind::kAdvertise;
      out.solicited = out.may_override = true;
      return RxVerdict::kArp;
    default:
      return RxVerdict::kBadArp;
  }
}

RxVerdict ParseIcmp(const FrameView& frame, NeighborInfo& out) {
  out = NeighborInfo();
  Reader reader(frame.payload_span());
  const IcmpHeader* header = reader.Take<IcmpHeader>();
  if (header == nullptr) return RxVerdict::kBadIcmp;
  const uint16_t remainder =
      frame.ipv6() ? Ipv6UpperChecksum(frame.src, frame.dst, kIpProtocolIcmpv6,
                                       frame.payload_span())
                   : Checksum(frame.payload_span());
  if (remainder != 0) return RxVerdict::kBadIcmp;
  if (!frame.ipv6()) {
    return header->type == kIcmpEchoRequest ? ParseEcho(frame, out)
                                            : RxVerdict::kIcmp;
  }
  switch (header->type) {
    case kIcmpv6EchoRequest:
      return ParseEcho(frame, out);
    case kIcmpv6NeighborSolicitation:
    case kIcmpv6NeighborAdvertisement:
      return ParseNeighborMessage(frame, out);
    default:
      return RxVerdict::kIcmp;
  }
}

size_t EmitSolicitation(const NeighborSelf& self, const Gid& target,
                        const std::optional<MacAddress>& known_mac,
                        std::span<uint8_t> out) {
  URNIC_CHECK(out.size() >= kNeighborFrameBytes);
  URNIC_CHECK(self.gid.is_ipv4() == target.is_ipv4());
  if (target.is_ipv4()) {
    return EmitArp(self, kArpRequest,
                   known_mac.value_or(MacAddress::Broadcast()), MacAddress(),
                   target, out);
  }
  const Gid dst = known_mac ? target : SolicitedNode(target);
  return EmitNeighborMessage(self, kIcmpv6NeighborSolicitation,
                             known_mac.value_or(MulticastMac(dst)), dst, 0,
                             target, out);
}

size_t EmitAdvertisement(const NeighborSelf& self, const FrameView& request,
                         const NeighborInfo& info, std::span<uint8_t> out) {
  URNIC_CHECK(out.size() >= kNeighborFrameBytes);
  URNIC_CHECK(info.kind == NeighborKind::kSolicit);
  const MacAddress asker_mac =
      info.has_owner ? info.owner_mac : request.eth->src;
  if (self.gid.is_ipv4()) {
    //= RFC 5227 2.1.1: who probes an address has none yet
    const Gid asker = info.has_owner ? info.owner : Gid::FromIpv4(0);
    return EmitArp(self, kArpReply, asker_mac, asker_mac, asker, out);
  }
  //= RFC 4861 7.2.4: a nameless asker is answered by telling all nodes
  const bool nameless = IsUnspecified(request.src);
  const Gid dst = nameless ? AllNodes() : request.src;
  const uint32_t flags =
      NeighborMessage::kOverride | (nameless ? 0 : NeighborMessage::kSolicited);
  return EmitNeighborMessage(self, kIcmpv6NeighborAdvertisement,
                             nameless ? MulticastMac(dst) : asker_mac, dst,
                             flags, self.gid, out);
}

size_t EmitAnnouncement(const NeighborSelf& self, std::span<uint8_t> out) {
  URNIC_CHECK(out.size() >= kNeighborFrameBytes);
  if (self.gid.is_ipv4()) {
    return EmitArp(self, kArpRequest, MacAddress::Broadcast(), MacAddress(),
                   self.gid, out);
  }
  return EmitNeighborMessage(self, kIcmpv6NeighborAdvertisement,
                             MulticastMac(AllNodes()), AllNodes(),
                             NeighborMessage::kOverride, self.gid, out);
}

size_t EmitEchoReply(const NeighborSelf& self, const FrameView& request,
                     std::span<uint8_t> bytes) {
  Reader reader(request.payload_span());
  const IcmpEcho* echo = reader.Take<IcmpEcho>();
  const size_t link_bytes =
      sizeof(Ethernet) + (self.vlan_tci ? sizeof(VlanTag) : 0);
  const size_t frame_bytes = link_bytes + request.l3_bytes;
  if (echo == nullptr || self.gid.is_ipv4() == request.ipv6() ||
      bytes.size() < std::max(frame_bytes, kEthernetMinBytes)) {
    return 0;
  }
  IcmpEcho reply = *echo;
  reply.header.type = request.ipv6() ? kIcmpv6EchoReply : kIcmpEchoReply;
  reply.header.checksum = Be<uint16_t>(0);
  Appender out(bytes.data());
  AppendLink(self, request.eth->src,
             request.ipv6() ? kEtherTypeIpv6 : kEtherTypeIpv4, out);
  if (request.ipv6()) {
    AppendIpv6(self.gid, request.src, kReplyHopLimit, request.payload_bytes,
               out);
  } else {
    AppendIpv4(self.gid, request.src, request.payload_bytes, out);
  }
  uint8_t* const message = bytes.data() + out.size();
  out.Append(reply);
  out.AppendBytes(reader.rest());
  const std::span<const uint8_t> written(message, request.payload_bytes);
  reply.header.checksum = Be<uint16_t>(
      request.ipv6()
          ? Ipv6UpperChecksum(self.gid, request.src, kIpProtocolIcmpv6, written)
          : Checksum(written));
  Appender(message).Append(reply);
  return PadToMinimum(out);
}

}  // namespace urnic::wire
