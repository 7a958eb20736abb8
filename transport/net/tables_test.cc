// Addresses, P_Keys, VLAN tags, routes, path MTUs.

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/host_wire.h"
#include "tests/support/random.h"
#include "transport/net/addresses.h"
#include "transport/net/path_mtu.h"
#include "transport/net/pkeys.h"
#include "transport/net/route_table.h"
#include "transport/net/vlan.h"

namespace urnic::net {
namespace {

using testing::GidOf;

wire::Gid Ipv4(uint32_t address) { return wire::Gid::FromIpv4(address); }

TEST(SamePrefixTest, ComparesTheGivenNumberOfBits) {
  testing::Random random(3);
  for (int i = 0; i < 2000; ++i) {
    wire::Gid a;
    for (uint8_t& byte : a.bytes) byte = random.Byte();
    wire::Gid b = a;
    const auto bit = static_cast<uint32_t>(random.Below(128));
    b.bytes[bit / 8] ^= static_cast<uint8_t>(0x80 >> bit % 8);
    for (uint32_t bits = 0; bits <= 128; ++bits) {
      ASSERT_TRUE(SamePrefix(a, a, bits));
      ASSERT_EQ(SamePrefix(a, b, bits), bits <= bit);
    }
  }
}

TEST(LocalAddressesTest, TheLongestPrefixIsTheLink) {
  LocalAddresses addresses;
  addresses.Set({{Ipv4(0x0a000001), 96 + 8},
                 {Ipv4(0x0a010001), 96 + 16},
                 {GidOf(1, true), 64}});
  EXPECT_TRUE(addresses.Contains(Ipv4(0x0a010001)));
  EXPECT_FALSE(addresses.Contains(Ipv4(0x0a010002)));
  EXPECT_EQ(addresses.FindOnLink(Ipv4(0x0a010203))->gid, Ipv4(0x0a010001));
  EXPECT_EQ(addresses.FindOnLink(Ipv4(0x0a020203))->gid, Ipv4(0x0a000001));
  EXPECT_EQ(addresses.FindOnLink(Ipv4(0x0b000001)), nullptr);
  EXPECT_EQ(addresses.FindOnLink(GidOf(9, true))->gid, GidOf(1, true));
}

TEST(LocalAddressesTest, AnIpv6PrefixOfNoBitsIsNotIpv4) {
  LocalAddresses addresses;
  addresses.Set({{GidOf(1, true), 0}});
  EXPECT_EQ(addresses.FindOnLink(Ipv4(0x0a000001)), nullptr);
  EXPECT_EQ(addresses.FirstLike(Ipv4(0x0a000001)), nullptr);
}

//= IBTA 10.9.3
TEST(PkeyTest, AtLeastOneIsAFullMember) {
  EXPECT_TRUE(PkeyMatches(0x8001, 0x8001));
  EXPECT_TRUE(PkeyMatches(0x8001, 0x0001));
  EXPECT_TRUE(PkeyMatches(0x0001, 0x8001));
  EXPECT_FALSE(PkeyMatches(0x0001, 0x0001));
  EXPECT_FALSE(PkeyMatches(0x8001, 0x8002));
}

TEST(PkeyTest, OurFullMembershipIsPreferred) {
  const std::vector<uint16_t> table = {0xffff, 0x8001, 0x0002,
                                       0x0003, 0x8003, 0x0004};
  EXPECT_EQ(FindPkey(table, 0xffff), 0);
  EXPECT_EQ(FindPkey(table, 0x7fff), 0);
  EXPECT_EQ(FindPkey(table, 0x8001), 1);
  EXPECT_EQ(FindPkey(table, 0x0001), 1);
  EXPECT_EQ(FindPkey(table, 0x8002), 2);
  EXPECT_EQ(FindPkey(table, 0x0002), std::nullopt) << "both limited";
  EXPECT_EQ(FindPkey(table, 0x8003), 4) << "full before limited";
  EXPECT_EQ(FindPkey(table, 0x0003), 4);
  EXPECT_EQ(FindPkey(table, 0x8005), std::nullopt);
}

//= IEEE 802.1Q 6.9.1
TEST(VlanTest, AFrameIsOfOneVlan) {
  wire::VlanTag tag;
  EXPECT_TRUE(IsOurVlan(nullptr, 0));
  EXPECT_FALSE(IsOurVlan(nullptr, 7));
  tag.tci = wire::VlanTag::MakeTci(0, 5);
  EXPECT_TRUE(IsOurVlan(&tag, 0)) << "a priority only";
  EXPECT_FALSE(IsOurVlan(&tag, 7));
  tag.tci = wire::VlanTag::MakeTci(7, 5);
  EXPECT_TRUE(IsOurVlan(&tag, 7));
  EXPECT_FALSE(IsOurVlan(&tag, 0));
}

//= IEEE 802.1Q 6.9.3, RFC 2474 4.2.2
TEST(VlanTest, TheTrafficClassGivesThePriority) {
  EXPECT_EQ(VlanTci(0, 0xff), std::nullopt);
  EXPECT_EQ(VlanTci(7, 0), 0x0007);
  EXPECT_EQ(VlanTci(7, 0x68), 0x6007) << "DSCP 26, AF31";
  EXPECT_EQ(VlanTci(7, 0xe0), 0xe007);
}

// --- Routes ------------------------------------------------------------------

Route To(uint32_t prefix, uint8_t bits, uint32_t gateway, uint32_t metric = 0) {
  return {.prefix = Ipv4(prefix),
          .prefix_bits = static_cast<uint8_t>(96 + bits),
          .gateway = Ipv4(gateway),
          .metric = metric};
}

TEST(RouteTableTest, TheLongestPrefixThenTheSmallestMetricWins) {
  RouteTable table;
  ASSERT_TRUE(table.Add(To(0, 0, 1, 100)));
  ASSERT_TRUE(table.Add(To(0x0a000000, 8, 2, 50)));
  ASSERT_TRUE(table.Add(To(0x0a010000, 16, 3, 200)));
  ASSERT_TRUE(table.Add(To(0x0a010000, 16, 4, 20)));
  ASSERT_TRUE(table.Add(To(0x0a010203, 32, 5, 999)));
  const auto gateway = [&table](uint32_t to) {
    return table.Find(Ipv4(to))->gateway.ipv4();
  };
  EXPECT_EQ(gateway(0x0b000001), 1u);
  EXPECT_EQ(gateway(0x0a020001), 2u);
  EXPECT_EQ(gateway(0x0a010001), 4u);
  EXPECT_EQ(gateway(0x0a010203), 5u);
  EXPECT_TRUE(table.Remove(To(0x0a010000, 16, 4, 20)));
  EXPECT_FALSE(table.Remove(To(0x0a010000, 16, 4, 20)));
  EXPECT_EQ(gateway(0x0a010001), 3u);
  ASSERT_TRUE(table.Replace(std::vector{To(0x0a000000, 8, 6)}));
  EXPECT_EQ(gateway(0x0a010203), 6u);
  EXPECT_EQ(table.Find(Ipv4(0x0b000001)), nullptr);
}

// Add() and Replace() give the same table.
TEST(RouteTableTest, FindsWhatALinearSearchFinds) {
  testing::Random random(4);
  for (int run = 0; run < 100; ++run) {
    std::vector<Route> all;
    RouteTable one_by_one;
    for (uint32_t i = 0; i < 30; ++i) {
      const auto prefix = static_cast<uint32_t>(random.Below(64)) << 26;
      all.push_back(To(prefix, static_cast<uint8_t>(random.Below(7)), i + 1,
                       static_cast<uint32_t>(random.Below(3))));
      ASSERT_TRUE(one_by_one.Add(all.back()));
    }
    RouteTable at_once;
    ASSERT_TRUE(at_once.Replace(all));
    for (uint32_t i = 0; i < 64; ++i) {
      const wire::Gid to = Ipv4(i << 26);
      const Route* best = nullptr;
      for (const Route& route : all) {
        if (!SamePrefix(route.prefix, to, route.prefix_bits)) continue;
        if (best == nullptr || best->prefix_bits < route.prefix_bits ||
            (best->prefix_bits == route.prefix_bits &&
             best->metric > route.metric)) {
          best = &route;
        }
      }
      for (const RouteTable* table : {&one_by_one, &at_once}) {
        const Route* found = table->Find(to);
        ASSERT_EQ(found == nullptr, best == nullptr);
        if (best != nullptr) {
          ASSERT_EQ(found->gateway, best->gateway);
        }
      }
    }
  }
}

TEST(RouteTableTest, ADefaultRouteIsOfOneFamily) {
  RouteTable table;
  Route ipv6;
  ipv6.gateway = GidOf(1, true);
  ASSERT_TRUE(table.Add(ipv6));
  EXPECT_EQ(table.Find(Ipv4(0x0a000001)), nullptr);
  EXPECT_NE(table.Find(GidOf(2, true)), nullptr);
  ASSERT_TRUE(table.Add(To(0, 0, 9)));
  EXPECT_EQ(table.Find(Ipv4(0x0a000001))->gateway, Ipv4(9));
  EXPECT_EQ(table.Find(GidOf(2, true))->gateway, GidOf(1, true));
}

TEST(RouteTableTest, TheSameRouteIsKeptOnce) {
  RouteTable table;
  Route route = To(0x0a000000, 8, 2);
  ASSERT_TRUE(table.Add(route));
  route.prefix = Ipv4(0x0a000099);  // host bits do not count
  route.source = Ipv4(7);
  ASSERT_TRUE(table.Add(route));
  ASSERT_EQ(table.routes().size(), 1u);
  EXPECT_EQ(table.Find(Ipv4(0x0a000001))->source, Ipv4(7));
}

TEST(RouteTableTest, InvalidRoutesAreRefused) {
  RouteTable table;
  Route route = To(0x0a000000, 8, 2);
  ASSERT_TRUE(table.Add(route));
  route.source = GidOf(1, true);
  EXPECT_FALSE(table.Add(route));
  route = To(0x0a000000, 8, 0xe0000001);
  EXPECT_FALSE(table.Add(route));
  EXPECT_FALSE(table.Replace(std::vector{route}));
  std::vector<Route> many;
  for (uint32_t i = 0; i <= RouteTable::kMaxRoutes; ++i) {
    many.push_back(To(i << 8, 24, 1));
  }
  EXPECT_FALSE(table.Replace(many));
  EXPECT_EQ(table.routes().size(), 1u) << "nothing has changed";
  many.pop_back();
  EXPECT_TRUE(table.Replace(many));
  EXPECT_FALSE(table.Add(To(0xff000000, 24, 1)));
}

// --- Path MTUs ---------------------------------------------------------------

class PathMtuTest : public ::testing::Test {
 protected:
  uint32_t Mtu(const wire::Gid& remote) const {
    return cache_.Find(remote, 9000, now_);
  }
  PathMtuCache cache_{3};
  Time now_ = Time::FromNs(1000);
  const wire::Gid a_ = GidOf(1);
};

//= RFC 1191 6.3
TEST_F(PathMtuTest, AReductionHoldsForTenMinutes) {
  EXPECT_EQ(Mtu(a_), 9000u);
  EXPECT_TRUE(cache_.OnTooBig(a_, 1400, 4000, now_));
  EXPECT_EQ(Mtu(a_), 1400u);
  EXPECT_EQ(Mtu(GidOf(2)), 9000u);
  EXPECT_EQ(cache_.Find(a_, 1000, now_), 1000u) << "the link's is smaller";
  now_ = now_ + Duration::Seconds(300);
  EXPECT_FALSE(cache_.OnTooBig(a_, 1400, 4000, now_)) << "but it still holds";
  now_ = now_ + Duration::Seconds(599);
  EXPECT_EQ(Mtu(a_), 1400u);
  now_ = now_ + Duration::Seconds(1);
  EXPECT_EQ(Mtu(a_), 9000u);
}

//= RFC 8201 4
TEST_F(PathMtuTest, NoMessageRaisesAnMtu) {
  EXPECT_TRUE(cache_.OnTooBig(a_, 1400, 4000, now_));
  EXPECT_FALSE(cache_.OnTooBig(a_, 2000, 4000, now_));
  EXPECT_EQ(Mtu(a_), 1400u);
  EXPECT_TRUE(cache_.OnTooBig(a_, 1300, 1400, now_));
  EXPECT_EQ(Mtu(a_), 1300u);
}

//= RFC 8200 5
TEST_F(PathMtuTest, NoMessagePushesAnMtuBelowTheFloor) {
  EXPECT_TRUE(cache_.OnTooBig(a_, 68, 4000, now_));
  EXPECT_EQ(Mtu(a_), PathMtuCache::kFloorIpv4);
  const wire::Gid b = GidOf(2, true);
  EXPECT_FALSE(cache_.OnTooBig(b, 1279, 4000, now_));
  EXPECT_EQ(Mtu(b), 9000u);
  EXPECT_TRUE(cache_.OnTooBig(b, 1280, 4000, now_));
}

TEST_F(PathMtuTest, APacketThatFitsIsNotTooBig) {
  EXPECT_FALSE(cache_.OnTooBig(a_, 1500, 1500, now_));
  EXPECT_FALSE(cache_.OnTooBig(a_, 68, 100, now_));
  EXPECT_EQ(Mtu(a_), 9000u);
}

//= RFC 1191 5, 7
TEST_F(PathMtuTest, WithoutAnMtuTheNextPlateauIsUsed) {
  EXPECT_TRUE(cache_.OnTooBig(a_, 0, 4140, now_));
  EXPECT_EQ(Mtu(a_), 2002u);
  EXPECT_TRUE(cache_.OnTooBig(a_, 0, 2002, now_));
  EXPECT_EQ(Mtu(a_), 1492u);
  EXPECT_TRUE(cache_.OnTooBig(a_, 0, 700, now_));
  EXPECT_EQ(Mtu(a_), PathMtuCache::kFloorIpv4);
}

// As a connection does that has found its path MTU itself.
TEST_F(PathMtuTest, WhatIsLearntNeedsNoRefusedPacket) {
  EXPECT_TRUE(cache_.Learn(a_, 1400, now_));
  EXPECT_EQ(Mtu(a_), 1400u);
  EXPECT_FALSE(cache_.Learn(a_, 1500, now_));
  EXPECT_EQ(Mtu(a_), 1400u);
  EXPECT_TRUE(cache_.Learn(a_, 68, now_));
  EXPECT_EQ(Mtu(a_), PathMtuCache::kFloorIpv4);
  const wire::Gid b = GidOf(2, true);
  EXPECT_TRUE(cache_.Learn(b, 68, now_));
  EXPECT_EQ(Mtu(b), PathMtuCache::kFloorIpv6);
}

TEST_F(PathMtuTest, EachReductionIsReportedOnce) {
  PathMtuCache::Change change;
  EXPECT_FALSE(cache_.TakeChange(change));
  EXPECT_TRUE(cache_.OnTooBig(a_, 1400, 4000, now_));
  EXPECT_TRUE(cache_.OnTooBig(a_, 1300, 4000, now_));
  EXPECT_TRUE(cache_.OnTooBig(GidOf(2), 1200, 4000, now_));
  ASSERT_TRUE(cache_.TakeChange(change));
  EXPECT_EQ(change.remote, a_);
  EXPECT_EQ(change.mtu, 1300u);
  ASSERT_TRUE(cache_.TakeChange(change));
  EXPECT_EQ(change.remote, GidOf(2));
  EXPECT_FALSE(cache_.TakeChange(change));
}

TEST_F(PathMtuTest, TheOldestReductionIsEvicted) {
  PathMtuCache::Change change;
  for (uint8_t n = 1; n <= 5; ++n) {
    EXPECT_TRUE(cache_.OnTooBig(GidOf(n), 1400, 4000, now_));
    now_ = now_ + Duration::Seconds(1);
  }
  EXPECT_EQ(Mtu(GidOf(2)), 9000u);
  EXPECT_EQ(Mtu(GidOf(3)), 1400u);
  int changes = 0;
  while (cache_.TakeChange(change)) ++changes;
  EXPECT_EQ(changes, 3);
}

}  // namespace
}  // namespace urnic::net
