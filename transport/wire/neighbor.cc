#include "transport/wire/neighbor.h"

#include <algorithm>

#include "transport/base/check.h"
#include "transport/wire/append_headers.h"
#include "transport/wire/appender.h"
#include "transport/wire/arp.h"
#include "transport/wire/icmp.h"
#include "transport/wire/reader.h"

namespace urnic::wire {
namespace {

// A binding of a group address, or of the unspecified one, would poison the
// resolver.
void SetOwner(const Gid& owner, const MacAddress& mac, NeighborInfo& out) {
  if (owner.is_unspecified() || owner.is_multicast() || mac.is_group()) return;
  out.has_owner = true;
  out.owner = owner;
  out.owner_mac = mac;
}

//= RFC 4291 2.7.1: a solicitation for an address goes to the group
//= ff02::1:ff00:0/104 with the last three bytes of that address
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

// Searches the options for the link-layer address of `type`. False if one is
// malformed: the whole message is then ignored.
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

//= RFC 4861 7.1.1: a solicitation has code 0 and a unicast target; one without
//= a source address goes to the solicited-node group and carries no MAC
RxVerdict ParseSolicitation(const FrameView& frame, const NeighborMessage& m,
                            Reader options, NeighborInfo& out) {
  std::optional<MacAddress> mac;
  if (!FindLinkLayer(options, kNeighborSourceLinkLayer, mac)) {
    return RxVerdict::kBadIcmp;
  }
  if (frame.src.is_unspecified() &&
      (mac.has_value() || !(frame.dst == SolicitedNode(m.target)))) {
    return RxVerdict::kBadIcmp;
  }
  out.kind = NeighborKind::kSolicit;
  out.asked = m.target;
  if (mac) SetOwner(frame.src, *mac, out);
  return RxVerdict::kIcmp;
}

//= RFC 4861 7.1.2: an advertisement has code 0 and a unicast target; one that
//= is sent to a group is not marked as solicited
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
  // A solicited answer to one host may omit the option. The frame's source is
  // the MAC then.
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
  // There is no one to answer: the source is not a host.
  if (frame.src.is_unspecified() || frame.src.is_multicast()) {
    return RxVerdict::kBadIcmp;
  }
  out.kind = NeighborKind::kEchoRequest;
  return RxVerdict::kIcmp;
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
  AppendLink(self.mac, self.vlan_tci, frame_dst, kEtherTypeArp, out);
  out.Append(arp);
  return PadToMinimum(out);
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
  AppendLink(self.mac, self.vlan_tci, frame_dst, kEtherTypeIpv6, out);
  AppendIpv6(self.gid, dst, kIpProtocolIcmpv6, kNeighborHopLimit, sizeof(m),
             out);
  out.Append(m);
  return PadToMinimum(out);
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
    //= RFC 5227 2.1.1: the sender of an ARP probe has no address yet, so its
    //= sender address is zero
    const Gid asker = info.has_owner ? info.owner : Gid::FromIpv4(0);
    return EmitArp(self, kArpReply, asker_mac, asker_mac, asker, out);
  }
  //= RFC 4861 7.2.4: a solicitation without a source address is answered to the
  //= all-nodes group
  const bool nameless = request.src.is_unspecified();
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

}  // namespace urnic::wire
