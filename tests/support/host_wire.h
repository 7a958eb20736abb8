#pragma once

// Frames for a host core (transport/net) and from it, without a wire.

#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "transport/net/frame_sink.h"
#include "transport/wire/appender.h"
#include "transport/wire/frame.h"
#include "transport/wire/icmp.h"
#include "transport/wire/neighbor.h"

namespace urnic::testing {

using FrameBytes = std::vector<uint8_t>;

// Keeps the frames that a core sends.
class HostSink final : public net::FrameSink {
 public:
  std::span<uint8_t> Frame() override {
    if (full) return {};
    room_.assign(4224, 0xee);  // an MTU of 4200
    return room_;
  }
  void Send(size_t bytes, bool loopback) override {
    (void)loopback;
    frames.emplace_back(room_.begin(),
                        room_.begin() + static_cast<ptrdiff_t>(bytes));
  }
  std::vector<FrameBytes> Take() { return std::exchange(frames, {}); }

  std::vector<FrameBytes> frames;
  bool full = false;  // nothing can be sent

 private:
  FrameBytes room_;
};

inline wire::MacAddress MacOf(uint8_t n) { return {{2, 0, 0, 0, 0, n}}; }
// 10.0.0.n or fd00::n, both of a link of 24 or 64 bits.
inline wire::Gid GidOf(uint8_t n, bool ipv6 = false) {
  if (!ipv6) return wire::Gid::FromIpv4(0x0a000000u + n);
  wire::Gid gid;
  gid.bytes[0] = 0xfd;
  gid.bytes[15] = n;
  return gid;
}

inline wire::NeighborSelf SelfOf(
    const wire::MacAddress& mac, const wire::Gid& gid,
    std::optional<uint16_t> vlan_tci = std::nullopt) {
  wire::NeighborSelf self;
  self.mac = mac;
  self.gid = gid;
  self.vlan_tci = vlan_tci;
  return self;
}

// "Who has `target`?"
inline FrameBytes AskFrame(
    const wire::NeighborSelf& self, const wire::Gid& target,
    std::optional<wire::MacAddress> known = std::nullopt) {
  FrameBytes frame(wire::kNeighborFrameBytes);
  frame.resize(wire::EmitSolicitation(self, target, known, frame));
  return frame;
}

inline FrameBytes AnnounceFrame(const wire::NeighborSelf& self) {
  FrameBytes frame(wire::kNeighborFrameBytes);
  frame.resize(wire::EmitAnnouncement(self, frame));
  return frame;
}

// What `self` would answer to `asker`.
inline FrameBytes AnswerFrame(const wire::NeighborSelf& self,
                              const wire::NeighborSelf& asker) {
  const FrameBytes question = AskFrame(asker, self.gid);
  wire::FrameView view;
  wire::NeighborInfo info;
  if (wire::ParseFrame(question.data(), question.size(), view) ==
      RxVerdict::kArp) {
    (void)wire::ParseArp(view, info);
  } else {
    (void)wire::ParseIcmp(view, info);
  }
  FrameBytes frame(wire::kNeighborFrameBytes);
  frame.resize(wire::EmitAdvertisement(self, view, info, frame));
  return frame;
}

// The neighbour message in a frame, if there is one.
struct NeighborWords {
  wire::NeighborInfo info;
  wire::MacAddress to;
  uint16_t vlan = 0;
};
inline std::optional<NeighborWords> WordsOf(const FrameBytes& frame) {
  wire::FrameView view;
  NeighborWords words;
  const RxVerdict shape = wire::ParseFrame(frame.data(), frame.size(), view);
  const bool good = shape == RxVerdict::kArp
                        ? wire::ParseArp(view, words.info) == shape
                        : shape == RxVerdict::kIcmp &&
                              wire::ParseIcmp(view, words.info) == shape;
  if (!good || words.info.kind == wire::NeighborKind::kOther) return {};
  words.to = view.eth->dst;
  words.vlan = view.vlan == nullptr ? 0 : view.vlan->vlan_id();
  return words;
}

// A router's report about a packet, of RoCE or TCP, that was too long for its
// next link.
struct TooBigFields {
  wire::MacAddress router_mac;
  wire::MacAddress mac;  // of the host that gets it
  wire::Gid router;
  wire::Gid to;
  wire::Gid quoted_src;  // of the packet: `to`, usually
  wire::Gid quoted_dst;
  uint32_t mtu = 0;
  uint16_t packet_bytes = 4140;
  uint16_t udp_port = 4791;
  // Of a TCP segment: source port, destination port, sequence number.
  struct Segment {
    wire::Be<uint16_t> src_port;
    wire::Be<uint16_t> dst_port;
    wire::Be<uint32_t> seq;
  };
  std::optional<Segment> segment = std::nullopt;
};

inline void AppendIp(const wire::Gid& src, const wire::Gid& dst,
                     uint8_t protocol, size_t bytes, wire::Appender& out) {
  const auto length = static_cast<uint16_t>(bytes);
  if (src.is_ipv4()) {
    wire::Ipv4 ip;
    ip.total_length =
        wire::Be<uint16_t>(static_cast<uint16_t>(length + sizeof(wire::Ipv4)));
    ip.ttl = 64;
    ip.protocol = protocol;
    ip.src = wire::Be<uint32_t>(src.ipv4());
    ip.dst = wire::Be<uint32_t>(dst.ipv4());
    ip.checksum =
        wire::Be<uint16_t>(wire::ChecksumSum().AddHeader(ip).Finish());
    out.Append(ip);
    return;
  }
  wire::Ipv6 ip;
  ip.version_class_flow = wire::Ipv6::MakeVersionClassFlow(0, 0);
  ip.payload_length = wire::Be<uint16_t>(length);
  ip.next_header = protocol;
  ip.hop_limit = 64;
  ip.src = src;
  ip.dst = dst;
  out.Append(ip);
}

inline FrameBytes TooBigFrame(const TooBigFields& f) {
  const bool ipv6 = !f.router.is_ipv4();
  FrameBytes message(8 + 40 + 8);
  wire::Appender quote(message.data() + 8);
  const size_t header = ipv6 ? sizeof(wire::Ipv6) : sizeof(wire::Ipv4);
  AppendIp(f.quoted_src, f.quoted_dst,
           f.segment.has_value() ? wire::kIpProtocolTcp : wire::kIpProtocolUdp,
           f.packet_bytes - header, quote);
  wire::Udp udp;
  udp.dst_port = wire::Be<uint16_t>(f.udp_port);
  if (f.segment.has_value()) {
    quote.Append(*f.segment);
  } else {
    quote.Append(udp);
  }
  message.resize(8 + quote.size());
  wire::IcmpTooBig head;
  head.header.type = ipv6 ? wire::kIcmpv6PacketTooBig : wire::kIcmpUnreachable;
  head.header.code = ipv6 ? 0 : wire::kIcmpFragmentationNeeded;
  head.mtu = wire::Be<uint32_t>(f.mtu);
  wire::Appender(message.data()).Append(head);
  const uint8_t protocol =
      ipv6 ? wire::kIpProtocolIcmpv6 : wire::kIpProtocolIcmp;
  head.header.checksum = wire::Be<uint16_t>(
      ipv6 ? wire::Ipv6UpperChecksum(f.router, f.to, protocol, message)
           : wire::Checksum(message));
  wire::Appender(message.data()).Append(head);
  FrameBytes frame(14 + 40 + message.size());
  wire::Appender out(frame.data());
  out.Append(wire::Ethernet{
      f.mac, f.router_mac,
      wire::Be<uint16_t>(ipv6 ? wire::kEtherTypeIpv6 : wire::kEtherTypeIpv4)});
  AppendIp(f.router, f.to, protocol, message.size(), out);
  out.AppendBytes(message);
  frame.resize(out.size());
  return frame;
}

}  // namespace urnic::testing
