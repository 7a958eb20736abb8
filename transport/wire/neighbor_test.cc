#include "transport/wire/neighbor.h"

#include <gtest/gtest.h>

#include <vector>

#include "transport/wire/address_text.h"
#include "transport/wire/appender.h"
#include "transport/wire/echo.h"
#include "transport/wire/icmp.h"

namespace urnic::wire {
namespace {

using Bytes = std::vector<uint8_t>;

Gid Ipv6Gid(uint8_t last) {
  Gid gid;
  gid.bytes = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77, 0, last};
  return gid;
}

NeighborSelf Host(bool ipv6, uint8_t n) {
  NeighborSelf self;
  self.mac = {{2, 0, 0, 0, 0, n}};
  self.gid = ipv6 ? Ipv6Gid(n) : Gid::FromIpv4(0x0a000000 + n);
  return self;
}

struct Parsed {
  RxVerdict verdict;
  FrameView frame;
  NeighborInfo info;
};

Parsed Parse(const Bytes& bytes) {
  Parsed p;
  p.verdict = ParseFrame(bytes.data(), bytes.size(), p.frame);
  if (p.verdict == RxVerdict::kArp) {
    p.verdict = ParseArp(p.frame, p.info);
  } else if (p.verdict == RxVerdict::kIcmp) {
    p.verdict = ParseIcmp(p.frame, p.info);
  }
  return p;
}

Bytes Ask(const NeighborSelf& self, const Gid& target,
          const std::optional<MacAddress>& known = std::nullopt) {
  Bytes bytes(kNeighborFrameBytes);
  bytes.resize(EmitSolicitation(self, target, known, bytes));
  return bytes;
}

Bytes Answer(const NeighborSelf& self, const Parsed& request) {
  Bytes bytes(kNeighborFrameBytes);
  bytes.resize(EmitAdvertisement(self, request.frame, request.info, bytes));
  return bytes;
}

// An echo request, as ping sends it.
Bytes Ping(const NeighborSelf& from, const NeighborSelf& to,
           const Bytes& data) {
  Bytes bytes(14 + 40 + 8 + data.size());
  const bool ipv6 = !from.gid.is_ipv4();
  IcmpEcho echo;
  echo.header.type = ipv6 ? kIcmpv6EchoRequest : kIcmpEchoRequest;
  echo.identifier = Be<uint16_t>(0x1234);
  echo.sequence = Be<uint16_t>(7);
  Bytes message(sizeof(echo));
  std::memcpy(message.data(), &echo, sizeof(echo));
  message.insert(message.end(), data.begin(), data.end());
  echo.header.checksum = Be<uint16_t>(
      ipv6 ? Ipv6UpperChecksum(from.gid, to.gid, kIpProtocolIcmpv6, message)
           : Checksum(message));
  std::memcpy(message.data(), &echo, sizeof(echo));
  Appender out(bytes.data());
  out.Append(Ethernet{to.mac, from.mac,
                      Be<uint16_t>(ipv6 ? kEtherTypeIpv6 : kEtherTypeIpv4)});
  if (ipv6) {
    Ipv6 ip;
    ip.version_class_flow = Ipv6::MakeVersionClassFlow(0, 0x54321);
    ip.payload_length = Be<uint16_t>(static_cast<uint16_t>(message.size()));
    ip.next_header = kIpProtocolIcmpv6;
    ip.hop_limit = 64;
    ip.src = from.gid;
    ip.dst = to.gid;
    out.Append(ip);
  } else {
    Ipv4 ip;
    ip.total_length = Be<uint16_t>(static_cast<uint16_t>(20 + message.size()));
    ip.ttl = 64;
    ip.protocol = kIpProtocolIcmp;
    ip.src = Be<uint32_t>(from.gid.ipv4());
    ip.dst = Be<uint32_t>(to.gid.ipv4());
    ip.checksum = Be<uint16_t>(ChecksumSum().AddHeader(ip).Finish());
    out.Append(ip);
  }
  out.AppendBytes(message);
  bytes.resize(out.size());
  return bytes;
}

class NeighborTest : public ::testing::TestWithParam<bool> {
 protected:
  const NeighborSelf alice_ = Host(GetParam(), 1);
  const NeighborSelf bob_ = Host(GetParam(), 2);
};

TEST_P(NeighborTest, AQuestionNamesTheAskerAndTheTarget) {
  const Bytes question = Ask(alice_, bob_.gid);
  EXPECT_GE(question.size(), kEthernetMinBytes);
  const Parsed p = Parse(question);
  ASSERT_EQ(p.verdict, GetParam() ? RxVerdict::kIcmp : RxVerdict::kArp);
  EXPECT_EQ(p.info.kind, NeighborKind::kSolicit);
  EXPECT_EQ(p.info.asked, bob_.gid);
  EXPECT_TRUE(p.info.has_owner);
  EXPECT_EQ(p.info.owner, alice_.gid);
  EXPECT_EQ(p.info.owner_mac, alice_.mac);
  EXPECT_TRUE(p.frame.eth->dst.is_group());
}

TEST_P(NeighborTest, AKnownNeighbourIsAskedByUnicast) {
  const Bytes question = Ask(alice_, bob_.gid, bob_.mac);
  const Parsed p = Parse(question);
  EXPECT_EQ(p.info.kind, NeighborKind::kSolicit);
  EXPECT_EQ(p.frame.eth->dst, bob_.mac);
}

TEST_P(NeighborTest, TheAnswerBindsTheAddress) {
  const Bytes question = Ask(alice_, bob_.gid);
  const Bytes answer = Answer(bob_, Parse(question));
  const Parsed p = Parse(answer);
  ASSERT_EQ(p.verdict, GetParam() ? RxVerdict::kIcmp : RxVerdict::kArp);
  EXPECT_EQ(p.info.kind, NeighborKind::kAdvertise);
  EXPECT_EQ(p.info.owner, bob_.gid);
  EXPECT_EQ(p.info.owner_mac, bob_.mac);
  EXPECT_TRUE(p.info.solicited);
  EXPECT_TRUE(p.info.may_override);
  EXPECT_EQ(p.frame.eth->dst, alice_.mac);
}

TEST_P(NeighborTest, AnAnnouncementGoesToAllAndAsksForNothing) {
  Bytes bytes(kNeighborFrameBytes);
  bytes.resize(EmitAnnouncement(alice_, bytes));
  const Parsed p = Parse(bytes);
  ASSERT_EQ(p.verdict, GetParam() ? RxVerdict::kIcmp : RxVerdict::kArp);
  EXPECT_TRUE(p.frame.eth->dst.is_group());
  EXPECT_EQ(p.info.owner, alice_.gid);
  EXPECT_EQ(p.info.owner_mac, alice_.mac);
  if (GetParam()) {
    //= RFC 4861 7.2.6
    EXPECT_EQ(p.info.kind, NeighborKind::kAdvertise);
    EXPECT_FALSE(p.info.solicited);
    EXPECT_TRUE(p.info.may_override);
    EXPECT_EQ(IpText(p.frame.dst), "ff02::1");
  } else {
    //= RFC 5227 2.3
    EXPECT_EQ(p.info.kind, NeighborKind::kSolicit);
    EXPECT_EQ(p.info.asked, alice_.gid);
  }
}

TEST_P(NeighborTest, TagsAreWrittenAndRead) {
  NeighborSelf tagged = alice_;
  tagged.vlan_tci = 0x2005;
  const Bytes question = Ask(tagged, bob_.gid);
  const Parsed p = Parse(question);
  ASSERT_NE(p.frame.vlan, nullptr);
  EXPECT_EQ(p.frame.vlan->vlan_id(), 5);
  EXPECT_EQ(p.info.asked, bob_.gid);
}

TEST_P(NeighborTest, EchoComesBackWithItsData) {
  for (const size_t n : {0, 1, 56, 1400}) {
    Bytes data(n);
    for (size_t i = 0; i < n; ++i) data[i] = static_cast<uint8_t>(i);
    const Bytes ping = Ping(alice_, bob_, data);
    const Parsed p = Parse(ping);
    ASSERT_EQ(p.verdict, RxVerdict::kIcmp);
    ASSERT_EQ(p.info.kind, NeighborKind::kEchoRequest);
    Bytes pong(std::max(ping.size(), kEthernetMinBytes));
    const std::span<const uint8_t> message = p.frame.payload_span();
    EchoReply reply(bob_, p.frame, {&message, 1}, 1500, 0);
    pong.resize(reply.WriteNext(pong));
    EXPECT_TRUE(reply.done());
    const Parsed q = Parse(pong);
    ASSERT_EQ(q.verdict, RxVerdict::kIcmp);
    EXPECT_EQ(q.info.kind, NeighborKind::kOther);
    EXPECT_EQ(q.frame.payload[0], GetParam() ? 129 : 0);
    EXPECT_EQ(q.frame.src, bob_.gid);
    EXPECT_EQ(q.frame.dst, alice_.gid);
    ASSERT_EQ(q.frame.payload_bytes, 8 + n);
    EXPECT_EQ(std::memcmp(q.frame.payload + 4, p.frame.payload + 4, 4 + n), 0);
    Bytes small(ping.size() < 60 ? 59 : ping.size() - 1);
    EXPECT_EQ(EchoReply(bob_, p.frame, {&message, 1}, 1500, 0).WriteNext(small),
              0u);
  }
}

TEST_P(NeighborTest, NoTruncatedOrCorruptMessageCrashesOrBinds) {
  const Bytes question = Ask(alice_, bob_.gid);
  for (const Bytes& good :
       {question, Answer(bob_, Parse(question)), Ping(alice_, bob_, {1, 2})}) {
    for (size_t n = 0; n < good.size(); ++n) {
      (void)Parse(Bytes(good.begin(), good.begin() + n)).verdict;
    }
    if (!GetParam()) continue;
    // After the IPv6 header, the checksum detects every flipped bit.
    for (size_t bit = 54 * 8; bit < good.size() * 8; ++bit) {
      Bytes bad = good;
      bad[bit / 8] ^= 1 << (bit % 8);
      EXPECT_EQ(Parse(bad).verdict, RxVerdict::kBadIcmp) << bit;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, NeighborTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Ipv6" : "Ipv4";
                         });

//= RFC 826
TEST(ArpTest, MalformedMessagesAreRefused) {
  const Bytes good = Ask(Host(false, 1), Host(false, 2).gid);
  constexpr size_t kArp = 14;
  for (const size_t at : {0, 1, 2, 3, 4, 5, 6, 7}) {
    Bytes bad = good;
    bad[kArp + at] ^= 0x40;
    EXPECT_EQ(Parse(bad).verdict, RxVerdict::kBadArp) << at;
  }
}

//= RFC 5227 2.1.1
TEST(ArpTest, AnAddressProbeBindsNothingAndIsAnswered) {
  NeighborSelf nobody = Host(false, 1);
  nobody.gid = Gid::FromIpv4(0);
  const Bytes probe = Ask(nobody, Host(false, 2).gid);
  const Parsed p = Parse(probe);
  EXPECT_EQ(p.info.kind, NeighborKind::kSolicit);
  EXPECT_FALSE(p.info.has_owner);
  const Bytes answer = Answer(Host(false, 2), p);
  EXPECT_EQ(Parse(answer).frame.eth->dst, nobody.mac);
}

TEST(ArpTest, GroupAddressesAreNeverBound) {
  NeighborSelf liar = Host(false, 1);
  liar.mac = MacAddress::Broadcast();
  EXPECT_FALSE(Parse(Ask(liar, Host(false, 2).gid)).info.has_owner);
  liar = Host(false, 1);
  liar.gid = Gid::FromIpv4(0xe0000001);
  EXPECT_FALSE(Parse(Ask(liar, Host(false, 2).gid)).info.has_owner);
}

// Corrects the checksum of a changed neighbour message.
Bytes FixChecksum(Bytes frame) {
  const FrameView view = Parse(frame).frame;
  const size_t at = 14 + 40 + 2;
  frame[at] = frame[at + 1] = 0;
  const Be<uint16_t> sum(Ipv6UpperChecksum(
      view.src, view.dst, kIpProtocolIcmpv6, view.payload_span()));
  std::memcpy(&frame[at], &sum, sizeof(sum));
  return frame;
}

//= RFC 4861 7.1.1, 4.6: a solicitation has hop limit 255, code 0, no group as
//= target, and no option of length zero
TEST(NeighborDiscoveryTest, InvalidMessagesAreRefused) {
  const Bytes good = Ask(Host(true, 1), Host(true, 2).gid);
  ASSERT_EQ(Parse(FixChecksum(good)).verdict, RxVerdict::kIcmp);
  const auto verdict = [&good](size_t at, uint8_t value) {
    Bytes frame = good;
    frame[at] = value;
    return Parse(FixChecksum(frame)).verdict;
  };
  constexpr size_t kHopLimit = 14 + 7;
  constexpr size_t kMessage = 14 + 40;
  EXPECT_EQ(verdict(kHopLimit, 254), RxVerdict::kBadIcmp);
  EXPECT_EQ(verdict(kMessage + 1, 1), RxVerdict::kBadIcmp);
  EXPECT_EQ(verdict(kMessage + 8, 0xff), RxVerdict::kBadIcmp);
  EXPECT_EQ(verdict(kMessage + 25, 0), RxVerdict::kBadIcmp);
  EXPECT_EQ(verdict(kMessage + 25, 2), RxVerdict::kBadIcmp);
}

//= RFC 4861 7.1.2
TEST(NeighborDiscoveryTest, InvalidAdvertisementsAreRefused) {
  const Bytes good =
      Answer(Host(true, 2), Parse(Ask(Host(true, 1), Host(true, 2).gid)));
  ASSERT_EQ(Parse(FixChecksum(good)).verdict, RxVerdict::kIcmp);
  constexpr size_t kHopLimit = 14 + 7;
  constexpr size_t kDestination = 14 + 24;
  constexpr size_t kMessage = 14 + 40;
  for (const size_t at : {kHopLimit, kMessage + 1, kMessage + 25}) {
    Bytes bad = good;
    bad[at] ^= 1;  // hop limit; code; length of the option
    EXPECT_EQ(Parse(FixChecksum(bad)).verdict, RxVerdict::kBadIcmp) << at;
  }
  Bytes to_all = good;
  const Bytes all = {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  std::copy(all.begin(), all.end(), &to_all[kDestination]);
  EXPECT_EQ(Parse(FixChecksum(to_all)).verdict, RxVerdict::kBadIcmp)
      << "all cannot have asked";
}

//= RFC 4861 4.3, 4.4, 4.6.1, RFC 4291 2.7.1
TEST(NeighborDiscoveryTest, MessagesMatchTheStandardByteForByte) {
  const Bytes question = Ask(Host(true, 1), Host(true, 2).gid);
  const Parsed p = Parse(question);
  EXPECT_EQ(IpText(p.frame.dst), "ff02::1:ff77:2");
  EXPECT_EQ(MacText(p.frame.eth->dst), "33:33:ff:77:00:02");
  const auto message = [](const Bytes& frame) {
    Bytes bytes(frame.begin() + 14 + 40, frame.end());
    bytes[2] = bytes[3] = 0;  // the checksum
    return bytes;
  };
  const Bytes solicitation = {
      135,  0,    0, 0, 0, 0, 0, 0,                             // header
      0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77, 0, 2,  // target
      1,    1,    2, 0, 0, 0, 0, 1};  // the asker's MAC
  EXPECT_EQ(message(question), solicitation);
  const Bytes advertisement = {
      136,  0,    0, 0, 0x60, 0, 0, 0,  // solicited, override
      0xfe, 0x80, 0, 0, 0,    0, 0, 0, 0, 0, 0, 0,
      0,    0x77, 0, 2, 2,    1, 2, 0, 0, 0, 0, 2};
  EXPECT_EQ(message(Answer(Host(true, 2), p)), advertisement);
}

// Duplicate address detection: the asker has no address, all nodes are
// answered.
//= RFC 4861 7.2.4
TEST(NeighborDiscoveryTest, AnAskerWithoutAnAddressIsAnsweredToAllNodes) {
  Bytes frame = Ask(Host(true, 1), Host(true, 2).gid);
  std::fill_n(&frame[14 + 8], 16, 0);
  // With a source link-layer option it is malformed; without it, it is valid.
  EXPECT_EQ(Parse(FixChecksum(frame)).verdict, RxVerdict::kBadIcmp);
  frame.resize(frame.size() - 8);
  frame[14 + 5] = 24;
  frame = FixChecksum(frame);
  const Parsed p = Parse(frame);
  ASSERT_EQ(p.verdict, RxVerdict::kIcmp);
  EXPECT_FALSE(p.info.has_owner);
  const Bytes answer = Answer(Host(true, 2), p);
  const Parsed q = Parse(answer);
  ASSERT_EQ(q.verdict, RxVerdict::kIcmp);
  EXPECT_FALSE(q.info.solicited);
  EXPECT_EQ(IpText(q.frame.dst), "ff02::1");
  EXPECT_EQ(MacText(q.frame.eth->dst), "33:33:00:00:00:01");
}

}  // namespace
}  // namespace urnic::wire
