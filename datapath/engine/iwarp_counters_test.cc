// The counters of two engines with iWARP connections between them.

#include <gtest/gtest.h>

#include <string>

#include "datapath/engine/engine.h"
#include "tests/support/iwarp_node.h"

namespace urnic {
namespace {

using iwarp::Event;
using testing::IwarpNode;
using testing::IwarpPair;
using testing::SendWr;
using Program = IwarpNode::Program;

constexpr uint16_t kPort = 7000;
constexpr uint16_t kLocal = 2000;

EngineCounters CountersOf(IwarpNode& node) {
  Engine::ControlScope scope(node.engine());
  return node.engine().CountersOfAll();
}
IwarpCounters Iwarp(IwarpNode& node) { return CountersOf(node).iwarp; }

void Write(IwarpPair& pair, Program& from, uint32_t bytes) {
  SendWr wr = {.opcode = URNIC_WR_RDMA_WRITE,
               .remote_addr = pair.b.address(512 << 10)};
  wr.rkey = pair.b.key();
  wr.sges = {pair.a.Sge(0, bytes)};
  const size_t before = pair.a.done.size();
  ASSERT_TRUE(pair.a.PostSend(from, wr));
  ASSERT_TRUE(pair.RunUntil([&] { return pair.a.done.size() > before; }));
}

TEST(IwarpCountersTest, OpensCountAtBothEnds) {
  IwarpPair pair("iwa");
  ASSERT_TRUE(pair.Connect(pair.a.Create(), pair.b.Create()));
  EXPECT_EQ(Iwarp(pair.a).active_opens, 1u);
  EXPECT_EQ(Iwarp(pair.a).passive_opens, 0u);
  EXPECT_EQ(Iwarp(pair.b).active_opens, 0u);
  EXPECT_EQ(Iwarp(pair.b).passive_opens, 1u);
  EXPECT_EQ(CountersOf(pair.a).iwarp_qps, 1u);
  EXPECT_EQ(CountersOf(pair.a).roce_qps, 0u);
}

TEST(IwarpCountersTest, ARefusalIsARst) {
  IwarpPair pair("iwb");
  pair.a.Connect(pair.a.Create(), pair.b, kLocal, kPort);
  ASSERT_TRUE(pair.RunUntil([&] { return pair.a.has_told(Event::kFailed); }));
  EXPECT_EQ(Iwarp(pair.a).in_rsts, 1u);
  EXPECT_EQ(Iwarp(pair.b).out_rsts, 1u);
}

// An abort, which the peer's program sees as the end of the connection.
TEST(IwarpCountersTest, AnAbortIsARst) {
  IwarpPair pair("iwf");
  Program& from = pair.a.Create();
  ASSERT_TRUE(pair.Connect(from, pair.b.Create()));
  pair.a.Modify(from, QpState::kReset);
  ASSERT_TRUE(
      pair.RunUntil([&] { return pair.b.has_told(Event::kDisconnected); }));
  EXPECT_EQ(Iwarp(pair.a).out_rsts, 1u);
  EXPECT_EQ(Iwarp(pair.b).in_rsts, 1u);
}

TEST(IwarpCountersTest, LossesAreRepairedAndCounted) {
  IwarpPair pair("iwl", {.fault = "loss=5%,seed=3"});
  Program& from = pair.a.Create();
  ASSERT_TRUE(pair.Connect(from, pair.b.Create()));
  for (int i = 0; i < 10; ++i) Write(pair, from, 256 << 10);
  const IwarpCounters sent = Iwarp(pair.a);
  EXPECT_GT(sent.retrans_segs, 0u);
  EXPECT_GT(sent.fast_recoveries, 0u);
  EXPECT_GT(Iwarp(pair.b).out_of_order_segs, 0u);
  // The queue pair's share: here, all.
  const RequesterCounters requests = CountersOf(pair.a).requesters;
  EXPECT_EQ(requests.requests_resent, sent.retrans_segs);
  EXPECT_EQ(requests.timeouts, sent.timeouts);
  EXPECT_GE(requests.bytes_acked, 10u * (256 << 10));
  EXPECT_GT(requests.requests_sent, requests.bytes_acked / 9000);
  // They outlive the queue pair and its connection.
  pair.a.Destroy(from);
  ASSERT_TRUE(
      pair.RunUntil([&] { return pair.b.has_told(Event::kDisconnected); }));
  EXPECT_GE(Iwarp(pair.a).retrans_segs, sent.retrans_segs);
  EXPECT_GE(CountersOf(pair.a).requesters.bytes_acked, requests.bytes_acked);
}

TEST(IwarpCountersTest, DuplicatesAreReportedByDsack) {
  IwarpPair pair("iwd2", {.fault = "duplicate=20%"});
  Program& from = pair.a.Create();
  ASSERT_TRUE(pair.Connect(from, pair.b.Create()));
  for (int i = 0; i < 4; ++i) Write(pair, from, 256 << 10);
  EXPECT_GT(Iwarp(pair.a).dsacks_recv, 0u);
}

TEST(IwarpCountersTest, CookiesThatComeBackCount) {
  IwarpPair pair("iwk", {.limits = {.half_open = 1, .time_wait = 64}});
  ASSERT_TRUE(pair.Connect(pair.a.Create(), pair.b.Create()));
  const IwarpCounters counters = Iwarp(pair.b);
  EXPECT_EQ(counters.syn_cookies_sent, 1u);
  EXPECT_EQ(counters.syn_cookies_recv, 1u);
  EXPECT_EQ(Iwarp(pair.b).syn_cookies_sent, 1u) << "read twice";
}

TEST(IwarpCountersTest, TerminatesCountByTheirError) {
  IwarpPair pair("iwt");
  Program& from = pair.a.Create();
  ASSERT_TRUE(pair.Connect(from, pair.b.Create()));
  SendWr wr = {.opcode = URNIC_WR_RDMA_WRITE, .remote_addr = pair.b.address(0)};
  wr.rkey = pair.b.key() + 0x1000;  // no memory has this key
  wr.sges = {pair.a.Sge(0, 8)};
  ASSERT_TRUE(pair.a.PostSend(from, wr));
  ASSERT_TRUE(
      pair.RunUntil([&] { return pair.a.has_told(Event::kDisconnected); }));
  const EngineCounters at_b = CountersOf(pair.b);
  EXPECT_EQ(at_b.iwarp.terminates_sent, 1u);
  EXPECT_EQ(at_b.iwarp.terminates_recv, 0u);
  //= RFC 5041 7.2: tagged buffer error, invalid STag
  EXPECT_EQ(at_b.terminates_sent.entries[0].error, 0x1100u);
  EXPECT_EQ(at_b.terminates_sent.entries[0].count, 1u);
  const EngineCounters at_a = CountersOf(pair.a);
  EXPECT_EQ(at_a.iwarp.terminates_recv, 1u);
  EXPECT_EQ(at_a.terminates_received.entries[0].error, 0x1100u);
  EXPECT_EQ(at_a.terminates_received.entries[1].count, 0u);
}

TEST(TerminateCountsTest, ErrorsThatFindNoEntryCountTogether) {
  TerminateCounts counts;
  for (uint16_t error = 0; error < 20; ++error) counts.Count(error);
  counts.Count(0);
  EXPECT_EQ(counts.entries[0].count, 2u);
  EXPECT_EQ(counts.entries[15].error, 15u);
  EXPECT_EQ(counts.others, 4u);
}

}  // namespace
}  // namespace urnic
