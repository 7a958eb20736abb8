// Which membership messages are sent, and when.

#include "transport/net/membership.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/host_wire.h"
#include "transport/wire/checksum.h"

namespace urnic::net {
namespace {

using testing::FrameBytes;
using testing::GidOf;
using testing::HostSink;
using testing::MacOf;

const wire::Gid kGroup = wire::Gid::FromIpv4(0xe1020304);
const wire::Gid kAllHosts = wire::Gid::FromIpv4(0xe0000001);
constexpr uint8_t kReport = 0x16;
constexpr uint8_t kReportV1 = 0x12;
constexpr uint8_t kLeave = 0x17;
constexpr uint8_t kMldReport = 131;
constexpr uint8_t kMldDone = 132;

// A query of IGMP for `group` (0: all), to be answered within `tenths`; 0: of
// version 1.
FrameBytes Query(uint32_t group, uint8_t tenths) {
  FrameBytes frame = {0x01, 0,    0x5e, 0,      0, 1,  2,   0, 0, 0, 0,    9,
                      0x08, 0x00, 0x46, 0,      0, 32, 0,   0, 0, 0, 1,    2,
                      0,    0,    10,   0,      0, 9,  224, 0, 0, 1, 0x94, 4,
                      0,    0,    0x11, tenths, 0, 0,  0,   0, 0, 0};
  const wire::Be<uint32_t> address(group);
  std::memcpy(&frame[42], &address, sizeof(address));
  const wire::Be<uint16_t> igmp(wire::Checksum({frame.data() + 38, 8}));
  std::memcpy(&frame[40], &igmp, sizeof(igmp));
  const wire::Be<uint16_t> ip(wire::Checksum({frame.data() + 14, 24}));
  std::memcpy(&frame[24], &ip, sizeof(ip));
  return frame;
}

// A general query of MLD by `querier`, to be answered within `delay_ms`.
FrameBytes MldQuery(const wire::Gid& querier, uint16_t delay_ms) {
  FrameBytes frame = {0x33, 0x33, 0,    0, 0, 1, 2, 0,  0, 0, 0, 9,  // link
                      0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 0, 1};
  wire::Gid all_nodes;
  all_nodes.bytes = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  for (const wire::Gid& gid : {querier, all_nodes}) {
    frame.insert(frame.end(), gid.bytes.begin(), gid.bytes.end());
  }
  frame.insert(frame.end(), {58, 0, 5, 2, 0, 0, 1, 0});
  FrameBytes query(24);
  query[0] = 130;
  const auto store = [&query](size_t at, uint16_t value) {
    query[at] = static_cast<uint8_t>(value >> 8);
    query[at + 1] = static_cast<uint8_t>(value);
  };
  store(4, delay_ms);
  store(2, wire::Ipv6UpperChecksum(querier, all_nodes, 58, query));
  frame.insert(frame.end(), query.begin(), query.end());
  return frame;
}

class MembershipTest : public ::testing::Test {
 protected:
  MembershipTest() { addresses_.Set({{GidOf(1), 120}, {GidOf(1, true), 64}}); }

  bool Join(const wire::Gid& group) {
    return membership_.Join(group, now_, sink_);
  }
  RxVerdict Give(const FrameBytes& frame) {
    return membership_.OnFrame(frame, RxVerdict::kNotRoce, now_);
  }
  // The types of the messages sent within `time`, with their times in `at_`.
  std::vector<uint8_t> Said(Duration time = {}) {
    const Time end = now_ + time;
    std::vector<uint8_t> list;
    const auto note = [&] {
      for (const FrameBytes& frame : sink_.Take()) {
        // After "router alert": the type of the IGMP or MLD message.
        list.push_back(frame[frame[12] == 0x86 ? 14 + 48 : 14 + 24]);
        at_.push_back(now_);
      }
    };
    note();
    while (membership_.NextDeadline() <= end) {
      now_ = std::max(now_, membership_.NextDeadline());
      membership_.OnTimer(now_, sink_);
      note();
    }
    now_ = end;
    return list;
  }

  LocalAddresses addresses_;
  Membership membership_{{.mac = MacOf(1), .max_groups = 4, .seed = 3},
                         &addresses_};
  HostSink sink_;
  Time now_ = Time::FromNs(1000000000);
  std::vector<Time> at_;
};

using Types = std::vector<uint8_t>;

//= RFC 2236 8.10
TEST_F(MembershipTest, AJoinIsReportedTwice) {
  EXPECT_TRUE(Join(kGroup));
  EXPECT_TRUE(Join(kGroup));
  EXPECT_EQ(Said(), Types({kReport}));
  EXPECT_EQ(Said(Duration::Seconds(10)), Types({kReport}));
  EXPECT_EQ(Said(Duration::Seconds(1000)), Types());
  membership_.Leave(kGroup, now_, sink_);
  membership_.Leave(kGroup, now_, sink_);
  EXPECT_EQ(Said(Duration::Seconds(1000)), Types({kLeave}));
}

//= RFC 2236 6
TEST_F(MembershipTest, TheGroupOfAllHostsIsNotReported) {
  EXPECT_TRUE(Join(kAllHosts));
  EXPECT_EQ(Give(Query(0, 1)), RxVerdict::kMembership);
  membership_.Leave(kAllHosts, now_, sink_);
  EXPECT_EQ(Said(Duration::Seconds(100)), Types());
}

//= RFC 2236 3
TEST_F(MembershipTest, AQueryIsAnsweredForItsGroupsInTime) {
  const wire::Gid other = wire::Gid::FromIpv4(0xe1020305);
  EXPECT_TRUE(Join(kGroup));
  EXPECT_TRUE(Join(other));
  (void)Said(Duration::Seconds(20));
  const Time asked = now_;
  at_.clear();
  EXPECT_EQ(Give(Query(0, 5)), RxVerdict::kMembership);
  EXPECT_EQ(Said(Duration::Seconds(20)), Types({kReport, kReport}));
  EXPECT_LE((at_[1] - asked).ns(), Duration::Milliseconds(500).ns());
  EXPECT_NE(at_[0], at_[1]) << "not all at once";
  EXPECT_EQ(Give(Query(0xe1020305, 5)), RxVerdict::kMembership);
  EXPECT_EQ(Said(Duration::Seconds(20)), Types({kReport}));
  EXPECT_EQ(Give(Query(0xe1020399, 5)), RxVerdict::kMembership);
  EXPECT_EQ(Said(Duration::Seconds(20)), Types());
}

//= RFC 2236 3
TEST_F(MembershipTest, AnotherMembersReportReplacesOurs) {
  EXPECT_TRUE(Join(kGroup));
  (void)Said(Duration::Seconds(20));
  (void)Give(Query(0, 100));
  FrameBytes report(wire::kMembershipFrameBytes);
  report.resize(wire::EmitMembership(MacOf(2), GidOf(2), kGroup,
                                     wire::MembershipMessage::kReport, report));
  EXPECT_EQ(Give(report), RxVerdict::kMembership);
  EXPECT_EQ(Said(Duration::Seconds(20)), Types());
}

//= RFC 2236 4, 8.11
TEST_F(MembershipTest, AVersion1QuerierIsRememberedForAWhile) {
  EXPECT_TRUE(Join(kGroup));
  (void)Said(Duration::Seconds(20));
  EXPECT_EQ(Give(Query(0, 0)), RxVerdict::kMembership);
  EXPECT_EQ(Said(Duration::Seconds(10)), Types({kReportV1}));
  membership_.Leave(kGroup, now_, sink_);
  EXPECT_EQ(Said(), Types()) << "version 1 has no such message";
  (void)Said(Duration::Seconds(400));
  EXPECT_TRUE(Join(kGroup));
  EXPECT_EQ(Said(), Types({kReport}));
}

//= RFC 2710 4, 5, 7.10
TEST_F(MembershipTest, MldFollowsTheSameRules) {
  wire::Gid group, all_nodes, other;
  group.bytes = {0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34};
  all_nodes.bytes = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  other.bytes = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9};
  EXPECT_TRUE(Join(all_nodes));
  EXPECT_TRUE(Join(group));
  EXPECT_EQ(Said(), Types({kMldReport})) << "nothing of all nodes";
  EXPECT_EQ(Said(Duration::Seconds(10)), Types({kMldReport}));
  const Time asked = now_;
  at_.clear();
  EXPECT_EQ(Give(MldQuery(other, 500)), RxVerdict::kMembership);
  EXPECT_EQ(Said(Duration::Seconds(20)), Types({kMldReport}));
  EXPECT_LE((at_.at(0) - asked).ns(), Duration::Milliseconds(500).ns());
  EXPECT_EQ(Give(MldQuery(GidOf(9, true), 500)), RxVerdict::kBadMembership)
      << "not of this link";
  EXPECT_EQ(Give(MldQuery(other, 10000)), RxVerdict::kMembership);
  FrameBytes report(wire::kMembershipFrameBytes);
  report.resize(wire::EmitMembership(MacOf(2), other, group,
                                     wire::MembershipMessage::kReport, report));
  EXPECT_EQ(Give(report), RxVerdict::kMembership);
  EXPECT_EQ(Said(Duration::Seconds(20)), Types()) << "another has said it";
  membership_.Leave(group, now_, sink_);
  EXPECT_EQ(Said(), Types({kMldDone}));
}

TEST_F(MembershipTest, OtherFramesKeepTheirVerdict) {
  EXPECT_EQ(Give(FrameBytes(60)), RxVerdict::kNotRoce);
  FrameBytes query = Query(0, 5);
  query[40] ^= 1;
  EXPECT_EQ(Give(query), RxVerdict::kBadMembership);
}

TEST_F(MembershipTest, TheNumberOfGroupsIsLimited) {
  for (uint32_t n = 0; n < 4; ++n) {
    EXPECT_TRUE(Join(wire::Gid::FromIpv4(0xe1020300 + n)));
  }
  EXPECT_FALSE(Join(wire::Gid::FromIpv4(0xe1020310)));
  membership_.Leave(wire::Gid::FromIpv4(0xe1020300), now_, sink_);
  EXPECT_TRUE(Join(wire::Gid::FromIpv4(0xe1020310)));
}

TEST_F(MembershipTest, WithoutAnAddressOfItsFamilyAGroupIsNotReported) {
  addresses_.Set({{GidOf(1, true), 64}});
  EXPECT_TRUE(Join(kGroup));
  EXPECT_EQ(Said(Duration::Seconds(20)), Types());
}

TEST_F(MembershipTest, ReportsOfAVlanAreTagged) {
  Membership tagged({.mac = MacOf(1), .vlan = 7, .seed = 3}, &addresses_);
  EXPECT_TRUE(tagged.Join(kGroup, now_, sink_));
  const FrameBytes frame = sink_.Take().at(0);
  EXPECT_EQ(frame[12], 0x81);
  EXPECT_EQ(frame[15], 7);
}

}  // namespace
}  // namespace urnic::net
