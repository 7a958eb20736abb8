#pragma once

// Pings in fragments, their answers, and a keeper of frames, without an engine.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/host_wire.h"
#include "transport/base/check.h"
#include "transport/base/frame_keeper.h"
#include "transport/wire/append_headers.h"
#include "transport/wire/echo.h"
#include "transport/wire/fragment.h"

namespace urnic::testing {

// A frame lives during Give(), and longer if it is kept.
class HostFrames final : public FrameKeeper, public FrameMaker {
 public:
  ~HostFrames() {
    for (const auto& [number, frame] : kept_) Spoil(frame);
  }

  // Calls `f` with a frame of these bytes. `f` may give further frames: all of
  // them are at hand then, as those of a burst.
  template <typename F>
  auto Give(const FrameBytes& bytes, F&& f) {
    const auto frame = std::make_shared<FrameBytes>(bytes);
    at_hand_.push_back(frame);
    const auto result = f(ReceivedFrame{*frame, frame.get()});
    at_hand_.pop_back();
    Spoil(frame);
    return result;
  }

  uint32_t Keep(const ReceivedFrame& frame, FrameHolder& holder) override {
    if (kept_.size() >= limit) return kRefused;
    std::shared_ptr<FrameBytes> kept;
    for (const auto& other : at_hand_) {
      if (frame.buffer == other.get()) kept = other;
    }
    if (frame.buffer == made_.get()) kept = made_;
    // A frame may be in custody already.
    for (const auto& [number, other] : kept_) {
      if (frame.buffer == other.get()) kept = other;
    }
    URNIC_CHECK(kept != nullptr);
    kept_[++last_] = std::move(kept);
    ++holder.kept;
    return last_;
  }
  void Release(uint32_t number, FrameHolder& holder) override {
    const auto at = kept_.find(number);
    URNIC_CHECK(at != kept_.end());
    Spoil(at->second);
    kept_.erase(at);
    --holder.kept;
  }
  ReceivedFrame Make(std::span<const uint8_t> bytes) override {
    if (made_ != nullptr) Spoil(made_);
    made_ = std::make_shared<FrameBytes>(bytes.begin(), bytes.end());
    return {*made_, made_.get()};
  }
  size_t kept() const { return kept_.size(); }

  size_t limit = 1000;

 private:
  // Its bytes are wrong from now on, unless someone keeps it.
  static void Spoil(const std::shared_ptr<FrameBytes>& frame) {
    if (frame.use_count() == 1) std::ranges::fill(*frame, uint8_t{0xdd});
  }

  std::vector<std::shared_ptr<FrameBytes>> at_hand_;
  std::shared_ptr<FrameBytes> made_;  // by the last Make()
  std::map<uint32_t, std::shared_ptr<FrameBytes>> kept_;
  uint32_t last_ = 0;
};

// An echo request or, with its other type, an answer.
inline FrameBytes EchoMessage(const wire::Gid& src, const wire::Gid& dst,
                              uint16_t sequence, const FrameBytes& data,
                              bool answer = false) {
  const bool ipv6 = !src.is_ipv4();
  wire::IcmpEcho echo;
  echo.header.type =
      ipv6 ? (answer ? wire::kIcmpv6EchoReply : wire::kIcmpv6EchoRequest)
           : (answer ? wire::kIcmpEchoReply : wire::kIcmpEchoRequest);
  echo.sequence = wire::Be<uint16_t>(sequence);
  FrameBytes message(sizeof(echo));
  wire::Appender(message.data()).Append(echo);
  message.insert(message.end(), data.begin(), data.end());
  echo.header.checksum = wire::Be<uint16_t>(
      ipv6 ? wire::Ipv6UpperChecksum(src, dst, wire::kIpProtocolIcmpv6, message)
           : wire::ChecksumReference(message));
  wire::Appender(message.data()).Append(echo);
  return message;
}

// Whose fragment it is, and of which packet.
struct FragmentOf {
  wire::NeighborSelf from;
  wire::NeighborSelf to;
  uint32_t identification = 1;
  std::optional<uint8_t> protocol = std::nullopt;  // ICMP, ICMPv6
};

inline FrameBytes FragmentFrame(const FragmentOf& of, uint32_t offset,
                                bool last, std::span<const uint8_t> data) {
  const wire::Gid& src = of.from.gid;
  const bool ipv6 = !src.is_ipv4();
  const uint8_t protocol = of.protocol.value_or(ipv6 ? wire::kIpProtocolIcmpv6
                                                     : wire::kIpProtocolIcmp);
  FrameBytes frame(18 + 48 + data.size());
  wire::Appender out(frame.data());
  wire::AppendLink(of.from.mac, of.from.vlan_tci, of.to.mac,
                   ipv6 ? wire::kEtherTypeIpv6 : wire::kEtherTypeIpv4, out);
  if (ipv6) {
    wire::AppendIpv6(src, of.to.gid, wire::kIpv6NextFragment, 64,
                     8 + data.size(), out);
    wire::Ipv6Fragment header;
    header.next_header = protocol;
    header.offset_more =
        wire::Be<uint16_t>(static_cast<uint16_t>(offset | (last ? 0 : 1)));
    header.identification = wire::Be<uint32_t>(of.identification);
    out.Append(header);
  } else {
    wire::Ipv4 ip;
    ip.total_length =
        wire::Be<uint16_t>(static_cast<uint16_t>(20 + data.size()));
    ip.identification =
        wire::Be<uint16_t>(static_cast<uint16_t>(of.identification));
    ip.flags_fragment = wire::Be<uint16_t>(
        static_cast<uint16_t>(offset / 8 | (last ? 0 : 0x2000)));
    ip.ttl = 64;
    ip.protocol = protocol;
    ip.src = wire::Be<uint32_t>(src.ipv4());
    ip.dst = wire::Be<uint32_t>(of.to.gid.ipv4());
    ip.checksum =
        wire::Be<uint16_t>(wire::ChecksumSum().AddHeader(ip).Finish());
    out.Append(ip);
  }
  out.AppendBytes(data);
  (void)wire::PadToMinimum(out);
  frame.resize(out.size());
  return frame;
}

// The message in fragments of `bytes` each. REQUIRES: bytes % 8 == 0
inline std::vector<FrameBytes> FragmentFrames(const FragmentOf& of,
                                              const FrameBytes& message,
                                              uint32_t bytes) {
  std::vector<FrameBytes> frames;
  const auto all = static_cast<uint32_t>(message.size());
  for (uint32_t at = 0; at < all; at += bytes) {
    const uint32_t count = std::min(bytes, all - at);
    frames.push_back(FragmentFrame(of, at, at + count == all,
                                   std::span(message).subspan(at, count)));
  }
  return frames;
}

// Reassembles the answers of a host, assuming that they do not overlap.
class Answers {
 public:
  // The whole ICMP message, if the frame completes it. Also none for a frame
  // that is neither ICMP nor a fragment of it.
  std::optional<FrameBytes> Add(const FrameBytes& frame) {
    wire::FrameView view;
    const RxVerdict shape = wire::ParseFrame(frame.data(), frame.size(), view);
    const auto payload = view.payload_span();
    if (shape == RxVerdict::kIcmp)
      return FrameBytes(payload.begin(), payload.end());
    wire::Fragment fragment;
    if (shape != RxVerdict::kIpFragment ||
        wire::ParseFragment(view, fragment) != RxVerdict::kAccept) {
      return {};
    }
    Packet& packet = packets_[{view.src.bytes, fragment.identification}];
    packet.parts[fragment.offset] = {fragment.data.begin(),
                                     fragment.data.end()};
    if (fragment.last) packet.bytes = fragment.end();
    FrameBytes whole;
    for (const auto& [offset, part] : packet.parts) {
      if (offset != whole.size()) return {};
      whole.insert(whole.end(), part.begin(), part.end());
    }
    if (whole.size() != packet.bytes) return {};
    packets_.erase({view.src.bytes, fragment.identification});
    return whole;
  }

 private:
  struct Packet {
    std::map<uint32_t, FrameBytes> parts;  // by offset
    size_t bytes = 0;                      // 0: unknown
  };
  std::map<std::pair<std::array<uint8_t, 16>, uint32_t>, Packet> packets_;
};

}  // namespace urnic::testing
