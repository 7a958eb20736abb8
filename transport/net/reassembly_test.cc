// Pings in fragments: what is reassembled and answered, what is refused, and
// what is kept meanwhile.

#include "transport/net/reassembly.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/support/fragments.h"
#include "tests/support/random.h"
#include "transport/net/host.h"

namespace urnic::net {
namespace {

using testing::EchoMessage;
using testing::FragmentFrame;
using testing::FragmentFrames;
using testing::FragmentOf;
using testing::FrameBytes;
using testing::GidOf;
using testing::MacOf;
using testing::SelfOf;
using V = RxVerdict;

// The MTU of the interfaces, and the host's, which is what its buffers hold.
constexpr uint32_t kMtu = 1500;
constexpr uint32_t kHostMtu = 4200;

class ReassemblyTest : public ::testing::TestWithParam<bool> {
 protected:
  ReassemblyTest() {
    HostConfig config;
    config.mac = MacOf(1);
    config.mtu = kHostMtu;
    config.addresses = {{GidOf(1, false), 96 + 24}, {GidOf(1, true), 64}};
    config.seed = 7;
    config.keeper = &frames_;
    host_ = std::make_unique<Host>(config);
  }

  wire::Gid Gid(uint8_t n) const { return GidOf(n, GetParam()); }
  FragmentOf Of(uint32_t identification, uint8_t from = 2) const {
    return {.from = SelfOf(MacOf(from), Gid(from)),
            .to = SelfOf(MacOf(1), Gid(1)),
            .identification = identification};
  }
  FrameBytes Message(uint16_t sequence, size_t bytes, uint8_t from = 2,
                     bool answer = false) const {
    FrameBytes data(bytes);
    Random random(sequence);
    for (uint8_t& byte : data) byte = random.Byte();
    return answer ? EchoMessage(Gid(1), Gid(from), sequence, data, true)
                  : EchoMessage(Gid(from), Gid(1), sequence, data);
  }
  V Give(const FrameBytes& frame) {
    return frames_.Give(frame, [&](const ReceivedFrame& received) {
      wire::FrameView view;
      const V shape =
          wire::ParseFrame(received.bytes.data(), received.bytes.size(), view);
      const V verdict = host_->OnFrame(view, shape, received, now_, sink_);
      // While the frame is there.
      if (verdict == V::kRudFragments) {
        datagram_.resize(wire::kRoceMaxBytes);
        const Host::Datagram datagram = host_->TakeDatagram(datagram_);
        datagram_.resize(datagram.bytes);
        was_marked_ = datagram.marked;
      }
      return verdict;
    });
  }
  // The frame with "congestion experienced".
  FrameBytes Marked(FrameBytes frame) const {
    constexpr size_t kIp = sizeof(wire::Ethernet);
    if (GetParam()) {
      frame[kIp + 1] |= wire::kEcnCongestionExperienced << 4;
      return frame;
    }
    auto& ip = *reinterpret_cast<wire::Ipv4*>(&frame[kIp]);
    ip.tos |= wire::kEcnCongestionExperienced;
    ip.checksum = {};
    ip.checksum =
        wire::Be<uint16_t>(wire::ChecksumSum().AddHeader(ip).Finish());
    return frame;
  }
  // The verdict on a fragment with this part of a message.
  V Part(uint32_t identification, uint32_t begin, uint32_t end,
         bool last = false, uint8_t fill = 0, uint8_t from = 2) {
    const FrameBytes data(end - begin, fill);
    return Give(FragmentFrame(Of(identification, from), begin, last, data));
  }
  // The complete messages that the host has sent, in frames that fit `mtu`.
  std::vector<FrameBytes> Sent(size_t mtu = kMtu) {
    std::vector<FrameBytes> list;
    for (const FrameBytes& frame : sink_.Take()) {
      EXPECT_LE(frame.size(), mtu + 14);
      if (auto message = answers_.Add(frame)) list.push_back(*message);
    }
    return list;
  }
  void Pass(Duration time) {
    now_ = now_ + time;
    host_->OnTimer(now_, sink_);
  }

  std::vector<uint8_t> datagram_;  // that was handed over last
  bool was_marked_ = false;
  testing::HostFrames frames_;
  testing::HostSink sink_;
  testing::Answers answers_;
  std::unique_ptr<Host> host_;
  Time now_ = Time::FromNs(1000000000);
};

//= RFC 1122 3.3.2, RFC 8200 4.5
TEST_P(ReassemblyTest, APingIsAnsweredInAnyOrderOfItsFragments) {
  Random random(1);
  for (const size_t bytes : {1473u, 4000u, 20000u, 65507u - 100}) {
    const auto sequence = static_cast<uint16_t>(bytes);
    auto frames = FragmentFrames(Of(static_cast<uint32_t>(bytes)),
                                 Message(sequence, bytes), 1440);
    for (size_t i = frames.size(); i > 1; --i) {
      std::swap(frames[i - 1], frames[random.Below(i)]);
    }
    for (size_t i = 0; i < frames.size(); ++i) {
      EXPECT_EQ(Give(frames[i]),
                i + 1 == frames.size() ? V::kIcmp : V::kFragmentKept);
      EXPECT_EQ(frames_.kept(), i + 1 == frames.size() ? 0 : i + 1);
    }
    const auto sent = Sent();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0], Message(sequence, bytes, 2, true));
  }
  EXPECT_EQ(host_->TakeIncomplete(), 0u);
  EXPECT_TRUE(host_->NextDeadline().IsInfinite());
}

TEST_P(ReassemblyTest, TheLongestPacketIsAnsweredAndALongerOneRefused) {
  const size_t most = 65535 - (GetParam() ? 0 : 20);
  const auto frames = FragmentFrames(Of(1), Message(1, most - 8), 1440);
  for (const FrameBytes& frame : frames) (void)Give(frame);
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0], Message(1, most - 8, 2, true));
  EXPECT_EQ(Part(2, 65528, 65528 + 8, true), V::kBadFragment);
}

//= RFC 6946 4
TEST_P(ReassemblyTest, AnAtomicFragmentIsNotCombinedWithOthers) {
  const FrameBytes message = Message(3, 32);
  EXPECT_EQ(Part(9, 0, 16), V::kFragmentKept);
  if (GetParam()) {
    EXPECT_EQ(Give(FragmentFrame(Of(9), 0, true, message)), V::kIcmp);
    EXPECT_EQ(Sent().size(), 1u);
  }
  EXPECT_EQ(frames_.kept(), 1u);
}

//= RFC 5722 4
TEST_P(ReassemblyTest, AnOverlapDropsThePacketAndItsLaterFragments) {
  const FrameBytes message = Message(4, 72);  // 80 bytes
  const auto part = std::span(message);
  const auto give = [&](uint32_t begin, uint32_t end, bool last = false) {
    return Give(
        FragmentFrame(Of(4), begin, last, part.subspan(begin, end - begin)));
  };
  EXPECT_EQ(give(0, 32), V::kFragmentKept);
  EXPECT_EQ(give(24, 48), V::kBadFragment);
  EXPECT_EQ(frames_.kept(), 0u);
  EXPECT_EQ(give(0, 32), V::kBadFragment);
  EXPECT_EQ(give(32, 80, true), V::kBadFragment);
  EXPECT_TRUE(Sent().empty());
  Pass(Reassembly::kLifetime);
  EXPECT_EQ(give(0, 32), V::kFragmentKept);
}

TEST_P(ReassemblyTest, ADuplicateFragmentChangesNothing) {
  const auto frames = FragmentFrames(Of(5), Message(5, 100), 48);
  EXPECT_EQ(Give(frames[0]), V::kFragmentKept);
  EXPECT_EQ(Give(frames[0]), V::kFragmentTwice);
  EXPECT_EQ(Give(frames[2]), V::kFragmentKept);
  EXPECT_EQ(Give(frames[2]), V::kFragmentTwice);
  EXPECT_EQ(Give(frames[1]), V::kIcmp);
  EXPECT_EQ(Sent().size(), 1u);
  // The same offset, but other bytes.
  EXPECT_EQ(Part(6, 0, 16, false, 1), V::kFragmentKept);
  EXPECT_EQ(Part(6, 0, 16, false, 2), V::kBadFragment);
}

TEST_P(ReassemblyTest, ContradictoryFragmentsDropThePacket) {
  EXPECT_EQ(Part(1, 48, 64, true), V::kFragmentKept);
  EXPECT_EQ(Part(1, 64, 80), V::kBadFragment) << "behind the end";
  EXPECT_EQ(Part(2, 48, 64), V::kFragmentKept);
  EXPECT_EQ(Part(2, 24, 32, true), V::kBadFragment) << "the end comes before";
  EXPECT_EQ(Part(3, 48, 64, true), V::kFragmentKept);
  EXPECT_EQ(Part(3, 64, 72, true), V::kBadFragment) << "two ends";
  EXPECT_EQ(Part(4, 0, 17), V::kBadFragment) << "no multiple of 8";
  EXPECT_EQ(Part(5, 8, 8), V::kBadFragment) << "empty";
  EXPECT_EQ(frames_.kept(), 0u);
}

TEST_P(ReassemblyTest, OnlyEchoRequestsAreAnswered) {
  FragmentOf udp = Of(1);
  udp.protocol = 17;
  EXPECT_EQ(Give(FragmentFrame(udp, 0, false, FrameBytes(16))), V::kIpFragment);
  FragmentOf elsewhere = Of(2);
  elsewhere.to.gid = Gid(7);
  EXPECT_EQ(Give(FragmentFrame(elsewhere, 0, false, FrameBytes(16))),
            V::kNotForUs);
  FrameBytes message = Message(3, 100);
  message[50] ^= 1;
  const auto spoilt = FragmentFrames(Of(3), message, 56);
  EXPECT_EQ(Give(spoilt[0]), V::kFragmentKept);
  EXPECT_EQ(Give(spoilt[1]), V::kBadIcmp);
  EXPECT_EQ(frames_.kept(), 0u);
  // An echo reply.
  const auto answer = FragmentFrames(
      Of(4), EchoMessage(Gid(2), Gid(1), 1, FrameBytes(100), true), 56);
  EXPECT_EQ(Give(answer[0]), V::kFragmentKept);
  EXPECT_EQ(Give(answer[1]), V::kIcmp);
  EXPECT_TRUE(Sent().empty());
}

//= RFC 6980 5
// The longest UDP packet over IPv6 is longer than any of RUD, and is dropped.
TEST_P(ReassemblyTest, DatagramsOfRudAreHandedOver) {
  const auto give = [&](uint32_t identification, uint16_t port, size_t bytes) {
    FrameBytes message(bytes);
    wire::Udp udp;
    udp.dst_port = wire::Be<uint16_t>(port);
    udp.length = wire::Be<uint16_t>(static_cast<uint16_t>(bytes));
    std::memcpy(message.data(), &udp, sizeof(udp));
    std::iota(message.begin() + sizeof(udp), message.end(), uint8_t{1});
    FragmentOf of = Of(identification);
    of.protocol = wire::kIpProtocolUdp;
    V last = V::kAccept;
    for (const FrameBytes& frame : FragmentFrames(of, message, 1440))
      last = Give(frame);
    return last;
  };
  EXPECT_EQ(give(1, wire::kRudUdpPort, 4000), V::kIpFragment) << "no window";
  host_->KeepDatagrams(true);
  EXPECT_EQ(give(2, 53, 4000), V::kIpFragment) << "another port";
  for (const size_t bytes : {size_t{2000}, wire::kRoceMaxBytes + size_t{8}}) {
    ASSERT_EQ(give(static_cast<uint32_t>(bytes), wire::kRudUdpPort, bytes),
              V::kRudFragments);
    std::vector<uint8_t> wanted(bytes - 8);
    std::iota(wanted.begin(), wanted.end(), uint8_t{1});
    EXPECT_TRUE(datagram_ == wanted) << bytes;
  }
  if (GetParam()) {
    EXPECT_EQ(give(5, wire::kRudUdpPort, 65535), V::kBadUdpLength);
  }
  EXPECT_EQ(frames_.kept(), 0u);
}

//= RFC 3168 5.3
TEST_P(ReassemblyTest, ADatagramIsMarkedIfOneOfItsFragmentsIs) {
  host_->KeepDatagrams(true);
  FrameBytes message(4000);
  wire::Udp udp;
  udp.dst_port = wire::Be<uint16_t>(wire::kRudUdpPort);
  udp.length = wire::Be<uint16_t>(4000);
  std::memcpy(message.data(), &udp, sizeof(udp));
  FragmentOf of = Of(1);
  of.protocol = wire::kIpProtocolUdp;
  // None, then each of the three.
  for (size_t marked = 3; marked != SIZE_MAX; --marked) {
    ++of.identification;
    std::vector<FrameBytes> frames = FragmentFrames(of, message, 1440);
    ASSERT_EQ(frames.size(), 3u);
    V last = V::kAccept;
    for (size_t i = 0; i < 3; ++i) {
      last = Give(i == marked ? Marked(frames[i]) : frames[i]);
    }
    ASSERT_EQ(last, V::kRudFragments);
    EXPECT_EQ(was_marked_, marked < 3) << marked;
  }
}

TEST_P(ReassemblyTest, FragmentedNeighbourDiscoveryIsIgnored) {
  if (!GetParam()) GTEST_SKIP() << "IPv4 has ARP";
  FrameBytes message = Message(1, 100);
  message[0] = wire::kIcmpv6NeighborSolicitation;
  message[2] = message[3] = 0;
  const uint16_t checksum =
      wire::Ipv6UpperChecksum(Gid(2), Gid(1), wire::kIpProtocolIcmpv6, message);
  message[2] = static_cast<uint8_t>(checksum >> 8);
  message[3] = static_cast<uint8_t>(checksum);
  const auto frames = FragmentFrames(Of(1), message, 56);
  EXPECT_EQ(Give(frames[0]), V::kFragmentKept);
  EXPECT_EQ(Give(frames[1]), V::kBadIcmp);
  EXPECT_TRUE(Sent().empty());
}

TEST_P(ReassemblyTest, AnIncompletePacketIsDroppedAfterAMinute) {
  EXPECT_EQ(Part(1, 0, 16), V::kFragmentKept);
  EXPECT_EQ(host_->NextDeadline(), now_ + Reassembly::kLifetime);
  Pass(Duration::Seconds(59));
  EXPECT_EQ(Part(1, 32, 48), V::kFragmentKept);
  EXPECT_EQ(frames_.kept(), 2u);
  Pass(Duration::Seconds(1));
  EXPECT_EQ(frames_.kept(), 0u);
  EXPECT_EQ(host_->TakeIncomplete(), 1u);
  EXPECT_TRUE(host_->NextDeadline().IsInfinite());
}

TEST_P(ReassemblyTest, AFloodingSourceTakesRoomOnlyFromItself) {
  const auto ping = FragmentFrames(Of(1, 9), Message(1, 4000, 9), 1440);
  EXPECT_EQ(Give(ping[0]), V::kFragmentKept);
  for (uint32_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(Part(i, 0, 16), V::kFragmentKept);
    Pass(Duration::Milliseconds(1));
  }
  EXPECT_EQ(frames_.kept(), 1u + Reassembly::kMaxPacketsPerSource);
  EXPECT_EQ(host_->TakeIncomplete(), 1000u - Reassembly::kMaxPacketsPerSource);
  for (uint32_t i = 0; i < 1000; ++i) (void)Part(1, 8 * i, 8 * i + 8);
  EXPECT_LE(frames_.kept(), 1u + Reassembly::kMaxFramesPerSource);
  for (size_t i = 1; i < ping.size(); ++i) (void)Give(ping[i]);
  EXPECT_EQ(Sent().size(), 1u);
}

TEST_P(ReassemblyTest, AFloodFromManySourcesIsBoundedAndTheNewestAreServed) {
  for (uint32_t i = 0; i < 3000; ++i) {
    const auto from = static_cast<uint8_t>(2 + i % 200);
    EXPECT_EQ(Part(i / 200, 8 * (i % 7), 8 * (i % 7) + 8, false, 0, from),
              V::kFragmentKept);
    Pass(Duration::Milliseconds(1));
    EXPECT_LE(frames_.kept(), Reassembly::kMaxPackets);
  }
  for (const FrameBytes& frame :
       FragmentFrames(Of(5000, 250), Message(1, 9000, 250), 1440)) {
    (void)Give(frame);
  }
  EXPECT_EQ(Sent().size(), 1u);
}

TEST_P(ReassemblyTest, WithoutCustodyAPacketIsDroppedAndCounted) {
  frames_.limit = 2;
  const auto ping = FragmentFrames(Of(1), Message(1, 8000), 1440);
  EXPECT_EQ(Give(ping[0]), V::kFragmentKept);
  EXPECT_EQ(Give(ping[1]), V::kFragmentKept);
  EXPECT_EQ(Give(ping[2]), V::kFragmentNoRoom);
  EXPECT_EQ(frames_.kept(), 0u);
  EXPECT_EQ(host_->TakeIncomplete(), 1u);
  // The oldest packet makes room for another one.
  EXPECT_EQ(Part(2, 0, 16), V::kFragmentKept);
  Pass(Duration::Milliseconds(1));
  EXPECT_EQ(Part(3, 0, 16), V::kFragmentKept);
  EXPECT_EQ(Part(3, 16, 32), V::kFragmentKept);
  EXPECT_EQ(host_->TakeIncomplete(), 1u);
  EXPECT_EQ(Part(3, 32, 48, true), V::kBadIcmp);
}

//= RFC 7739 5
TEST_P(ReassemblyTest, TheIdentificationsOfAnswersAreNotACounter) {
  std::vector<uint16_t> identifications;
  for (uint16_t sequence = 1; sequence <= 3; ++sequence) {
    for (const FrameBytes& frame :
         FragmentFrames(Of(sequence), Message(sequence, 4000), 1440)) {
      (void)Give(frame);
    }
    const std::vector<FrameBytes> sent = sink_.Take();
    ASSERT_EQ(sent.size(), 3u);
    wire::FrameView view;
    wire::Fragment fragment;
    ASSERT_EQ(wire::ParseFrame(sent[0].data(), sent[0].size(), view),
              V::kIpFragment);
    ASSERT_EQ(wire::ParseFragment(view, fragment), V::kAccept);
    identifications.push_back(static_cast<uint16_t>(fragment.identification));
  }
  const auto step = [&](size_t i) {
    return static_cast<uint16_t>(identifications[i + 1] - identifications[i]);
  };
  EXPECT_NE(step(0), step(1));
}

TEST_P(ReassemblyTest, AnAnswerFitsThePathMtu) {
  // A path MTU is only accepted if a path uses the neighbour.
  ASSERT_EQ(Give(testing::AskFrame(Of(1).from, Gid(1))),
            GetParam() ? V::kIcmp : V::kArp);
  Path path;
  ASSERT_EQ(host_->Find({.local = Gid(1), .remote = Gid(2)}, now_, path),
            PathStatus::kFound);
  ASSERT_EQ(Give(testing::TooBigFrame({.router_mac = MacOf(5),
                                       .mac = MacOf(1),
                                       .router = Gid(5),
                                       .to = Gid(1),
                                       .quoted_src = Gid(1),
                                       .quoted_dst = Gid(2),
                                       .mtu = 1300})),
            V::kIcmp);
  sink_.Take();
  for (const size_t bytes : {1250u, 1400u, 4000u}) {
    const FrameBytes message = Message(1, bytes);
    for (const FrameBytes& frame : FragmentFrames(Of(7), message, 1440)) {
      (void)Give(frame);
    }
    const auto sent = Sent(1300);
    ASSERT_EQ(sent.size(), 1u) << bytes;
    EXPECT_EQ(sent[0], Message(1, bytes, 2, true));
  }
}

INSTANTIATE_TEST_SUITE_P(Ip, ReassemblyTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Ipv6" : "Ipv4";
                         });

}  // namespace
}  // namespace urnic::net
