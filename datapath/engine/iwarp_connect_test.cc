// The begin and the end of iWARP connections between two engines at the ends of
// a ring. iwarp_data_test.cc tests their data.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "datapath/engine/connection_table.h"
#include "datapath/engine/engine.h"
#include "tests/support/iwarp_node.h"

namespace urnic {
namespace {

using iwarp::Event;
using iwarp::Failure;
using testing::IwarpNode;
using testing::IwarpPair;
using Program = IwarpNode::Program;

constexpr uint16_t kPort = 7000;
constexpr uint16_t kLocal = 2000;

class IwarpConnectTest : public ::testing::Test {
 protected:
  static std::vector<Event> EventsOf(const IwarpNode& node) {
    std::vector<Event> events;
    for (const IwarpNode::Told& told : node.told) events.push_back(told.event);
    return events;
  }
  static void Forget(IwarpNode& node, IwarpConnection* connection) {
    node.Control([&](ConnectionTable& table) { table.Forget(connection); });
  }
  bool RunUntilTold(IwarpNode& node, Event event) {
    return pair_.RunUntil([&] { return node.has_told(event); });
  }
  bool RunUntilEmpty() {
    return pair_.RunUntil([this] {
      return a.connections().size() == 0 && b.connections().size() == 0;
    });
  }
  // Expects that the connections have released all resources.
  static void ExpectNothingLeft(IwarpNode& node) {
    const ConnectionLimits limits;
    const ConnectionPools& pools = node.connections().pools();
    EXPECT_EQ(pools.free_blocks(), limits.segment_blocks);
    EXPECT_EQ(pools.free_ranges(), limits.ranges);
    EXPECT_EQ(pools.free_pieces(), limits.held_pieces);
    EXPECT_EQ(pools.free_early(), limits.early_fpdus);
    EXPECT_EQ(pools.free_fpdus(), limits.kept_fpdus);
    EXPECT_EQ(node.engine().custody()->kept(), 0u);
  }

  IwarpPair pair_{"iwc"};
  IwarpNode& a = pair_.a;
  IwarpNode& b = pair_.b;
};

TEST_F(IwarpConnectTest, BothProgramsAreToldAndGetPrivateData) {
  Program& from = a.Create();
  Program& to = b.Create();
  b.Listen(kPort);
  b.acceptors = {&to};
  b.answer = "welcome";
  const IwarpConnection& connection =
      a.Connect(from, b, kLocal, kPort, "hello");
  ASSERT_TRUE(RunUntilTold(a, Event::kConnected));
  ASSERT_TRUE(RunUntilTold(b, Event::kConnected));
  EXPECT_EQ(EventsOf(a), (std::vector{Event::kConnected}));
  EXPECT_EQ(EventsOf(b), (std::vector{Event::kRequest, Event::kConnected}));
  EXPECT_EQ(a.told[0].connection, &connection);
  EXPECT_EQ(a.told[0].private_data, "welcome");
  EXPECT_EQ(b.told[0].private_data, "hello");
  EXPECT_EQ(connection.tuple(),
            (tcp::FourTuple{a.gid(), b.gid(), kLocal, kPort}));
  EXPECT_EQ(connection.qp(), from.qp);
  EXPECT_EQ(from.qp->core_state(), QpState::kRts);
  EXPECT_EQ(to.qp->core_state(), QpState::kRts);
  EXPECT_EQ(from.qp->state(), QpState::kRts);
  EXPECT_EQ(to.qp->state(), QpState::kRts);
}

TEST_F(IwarpConnectTest, ARejectHasPrivateData) {
  Program& from = a.Create();
  b.Listen(kPort);
  a.Connect(from, b, kLocal, kPort);
  ASSERT_TRUE(RunUntilTold(b, Event::kRequest));
  IwarpConnection* const request = b.told[0].connection;
  const uint8_t no[] = {'n', 'o'};
  EXPECT_TRUE(b.Control([&](ConnectionTable& table) {
                 return table.Reject(*request, no);
               }).ok());
  Forget(b, request);
  ASSERT_TRUE(RunUntilTold(a, Event::kRejected));
  EXPECT_EQ(a.told[0].private_data, "no");
  EXPECT_EQ(from.qp->core_state(), QpState::kInit);
  Forget(a, a.told[0].connection);
  EXPECT_TRUE(RunUntilEmpty());
}

TEST_F(IwarpConnectTest, ATraceTellsOfAConnection) {
  Trace& trace = a.engine().trace();
  trace.levels().Set(TraceComponent::kQp, trace_level::kFunctions);
  Program& from = a.Create();
  a.Connect(from, b, kLocal, kPort);
  ASSERT_TRUE(RunUntilTold(a, Event::kFailed));
  Forget(a, a.told[0].connection);
  ASSERT_TRUE(RunUntilEmpty());
  std::vector<TraceEvent> events;
  trace.Visit(trace.oldest(), 100, [&](const TraceEvent& event) {
    if (event.point >= TracePoint::kConnectionBegins &&
        event.point <= TracePoint::kConnectionEnds) {
      events.push_back(event);
    }
  });
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].point, TracePoint::kConnectionBegins);
  EXPECT_EQ(events[1].point, TracePoint::kConnectionServes);
  EXPECT_EQ(events[1].subject.qpn, from.qp->qpn());
  EXPECT_EQ(events[2].point, TracePoint::kConnectionEnds);
  EXPECT_EQ(events[2].words[2], static_cast<uint64_t>(tcp::End::kRefused));
  for (const TraceEvent& event : events) {
    EXPECT_TRUE(event.subject.iwarp);
    EXPECT_EQ(event.words[0], kLocal);
    EXPECT_EQ(event.words[1], kPort);
  }
}

//= RFC 9293 3.10.7.1
TEST_F(IwarpConnectTest, WithoutAListenerTheConnectionIsRefused) {
  Program& from = a.Create();
  a.Connect(from, b, kLocal, kPort);
  ASSERT_TRUE(RunUntilTold(a, Event::kFailed));
  EXPECT_EQ(a.told[0].connection->endpoint().failure(), Failure::kRefused);
  EXPECT_GE(b.count(RxVerdict::kTcp), 1u);
  // The queue pair can be used again.
  EXPECT_EQ(from.qp->connection(), nullptr);
  ASSERT_TRUE(pair_.Connect(from, b.Create(), kLocal));
}

TEST_F(IwarpConnectTest, WhatIsKnownOutlivesItsListener) {
  Program& from = a.Create();
  IwarpListener* const listener = b.Listen(kPort);
  a.Connect(from, b, kLocal, kPort);
  ASSERT_TRUE(RunUntilTold(b, Event::kRequest));
  Program& other = a.Create();
  b.acceptors = {&b.Create()};
  a.Connect(other, b, kLocal + 1, kPort);
  ASSERT_TRUE(RunUntilTold(b, Event::kConnected));
  b.Control([&](ConnectionTable& table) { table.Unlisten(listener); });
  EXPECT_EQ(b.connections().listeners(), 0u);
  EXPECT_TRUE(b.Accept(*b.told[0].connection, b.Create()).ok());
  EXPECT_TRUE(pair_.RunUntil([&] {
    return from.qp->core_state() == QpState::kRts &&
           other.qp->core_state() == QpState::kRts;
  }));
}

TEST_F(IwarpConnectTest, AFullBacklogDelaysFurtherConnections) {
  b.Listen(kPort, /*backlog=*/1);
  a.Connect(a.Create(), b, kLocal, kPort);
  ASSERT_TRUE(RunUntilTold(b, Event::kRequest));
  a.Connect(a.Create(), b, kLocal + 1, kPort);
  ASSERT_TRUE(
      pair_.RunUntil([this] { return b.count(RxVerdict::kTcpBacklog) != 0; }));
  EXPECT_EQ(b.told.size(), 1u);
  ASSERT_TRUE(b.Accept(*b.told[0].connection, b.Create()).ok());
  b.acceptors = {&b.Create()};
  // It repeats its SYN.
  ASSERT_TRUE(pair_.RunUntil([this] { return a.told.size() == 2; }));
  EXPECT_EQ(EventsOf(a), (std::vector{Event::kConnected, Event::kConnected}));
}

TEST_F(IwarpConnectTest, EitherEndMayDisconnect) {
  for (const bool passive : {false, true}) {
    Program& from = a.Create();
    Program& to = b.Create();
    a.told.clear();
    b.told.clear();
    ASSERT_TRUE(pair_.Connect(from, to, passive ? kLocal : kLocal + 1));
    ASSERT_TRUE(RunUntilTold(b, Event::kConnected));
    IwarpConnection* const ours = from.qp->connection();
    IwarpConnection* const theirs = to.qp->connection();
    (passive ? b : a).Control([&](ConnectionTable& table) {
      table.Disconnect(passive ? *theirs : *ours);
    });
    ASSERT_TRUE(RunUntilTold(a, Event::kDisconnected));
    ASSERT_TRUE(RunUntilTold(b, Event::kDisconnected));
    EXPECT_EQ(ours->endpoint().failure(), Failure::kNone);
    EXPECT_EQ(theirs->endpoint().failure(), Failure::kNone);
    EXPECT_EQ(from.qp->core_state(), QpState::kErr);
    EXPECT_EQ(to.qp->core_state(), QpState::kErr);
    Forget(a, ours);
    Forget(b, theirs);
    ASSERT_TRUE(RunUntilEmpty());
    EXPECT_EQ(from.qp->connection(), nullptr);
  }
  // The side that closes first keeps the addresses and ports in TIME-WAIT.
  EXPECT_EQ(a.connections().time_wait(), 1u);
  EXPECT_EQ(b.connections().time_wait(), 1u);
  ExpectNothingLeft(a);
  ExpectNothingLeft(b);
}

TEST_F(IwarpConnectTest, AConnectionMayBeForgottenAtEveryStage) {
  // Ends the connection after `steps` iterations of both engines; in the last
  // runs it is established.
  uint16_t port = kLocal;
  for (int steps = 0; steps < 12; ++steps) {
    b.told.clear();
    b.acceptors = {&b.Create()};
    if (b.connections().listeners() == 0) b.Listen(kPort);
    IwarpConnection& ours = a.Connect(a.Create(), b, port++, kPort);
    for (int i = 0; i < steps; ++i) pair_.Step();
    Forget(a, &ours);
    ASSERT_TRUE(pair_.RunUntil([&] {
      for (size_t i = 0; i < b.told.size(); ++i) {
        if (b.told[i].event != Event::kRequest) continue;
        Forget(b, b.told[i].connection);
        b.told.clear();
      }
      return a.connections().size() == 0 && b.connections().size() == 0;
    })) << steps;
  }
  ExpectNothingLeft(a);
  ExpectNothingLeft(b);
}

TEST_F(IwarpConnectTest, AnUnansweredRequestMayBeForgotten) {
  b.Listen(kPort);
  a.Connect(a.Create(), b, kLocal, kPort);
  ASSERT_TRUE(RunUntilTold(b, Event::kRequest));
  Forget(b, b.told[0].connection);
  ASSERT_TRUE(RunUntilTold(a, Event::kRejected));
  ASSERT_TRUE(pair_.RunUntil([this] { return b.connections().size() == 0; }));
}

// The owner does not notice the first attempt.
TEST_F(IwarpConnectTest, APeerOfRevision1GetsASecondConnection) {
  Program& from = a.Create();
  Program& to = b.Create();
  b.setup.revision = 1;
  b.Listen(kPort);
  b.acceptors = {&to};
  a.Connect(from, b, kLocal, kPort, "hello");
  ASSERT_TRUE(RunUntilTold(a, Event::kConnected));
  EXPECT_EQ(EventsOf(a), (std::vector{Event::kConnected}));
  EXPECT_EQ(EventsOf(b), (std::vector{Event::kRequest, Event::kConnected}));
  EXPECT_EQ(b.told[0].private_data, "hello");
  EXPECT_EQ(from.qp->connection()->endpoint().set_up().agreement().revision, 1);
  EXPECT_EQ(from.qp->connection()->tuple().local_port, kLocal);
}

TEST_F(IwarpConnectTest, BetweenTwoAttemptsAConnectionCanBeGivenUp) {
  b.setup.revision = 1;
  b.Listen(kPort);
  // Ends the connection after `steps` iterations.
  for (uint16_t steps = 1; steps < 12; ++steps) {
    a.told.clear();
    Program& from = a.Create();
    IwarpConnection& connection =
        a.Connect(from, b, static_cast<uint16_t>(kLocal + steps), kPort);
    for (int i = 0; i < steps; ++i) pair_.Step();
    a.Control([&](ConnectionTable& table) { table.Disconnect(connection); });
    ASSERT_TRUE(RunUntilTold(a, Event::kFailed)) << steps;
    EXPECT_EQ(a.told.size(), 1u);
    Forget(a, &connection);
    ASSERT_TRUE(pair_.RunUntil([this] { return a.connections().size() == 0; }));
  }
  ExpectNothingLeft(a);
}

TEST_F(IwarpConnectTest, ADestroyedQueuePairEndsItsConnection) {
  Program& from = a.Create();
  ASSERT_TRUE(pair_.Connect(from, b.Create()));
  a.Destroy(from);
  ASSERT_TRUE(RunUntilTold(a, Event::kDisconnected));
  ASSERT_TRUE(RunUntilTold(b, Event::kDisconnected));
  EXPECT_EQ(a.told.back().connection->qp(), nullptr);
}

TEST_F(IwarpConnectTest, AQueuePairThatGoesToErrorDisconnects) {
  Program& from = a.Create();
  ASSERT_TRUE(pair_.Connect(from, b.Create()));
  ASSERT_TRUE(a.PostReceive(from, {.wr_id = 9, .sges = {a.Sge(0, 8)}}));
  a.Modify(from, QpState::kErr);
  ASSERT_TRUE(RunUntilTold(b, Event::kDisconnected));
  EXPECT_EQ(b.told.back().connection->endpoint().failure(), Failure::kNone);
  ASSERT_EQ(a.done.size(), 1u);
  EXPECT_EQ(a.done[0].status, URNIC_WC_WR_FLUSH_ERR);
  // What is posted later is flushed, too: with its connection and without.
  ASSERT_TRUE(a.PostReceive(from, {.wr_id = 10, .sges = {a.Sge(0, 8)}}));
  Forget(a, a.told.back().connection);
  ASSERT_TRUE(pair_.RunUntil([this] { return a.connections().size() == 0; }));
  ASSERT_TRUE(a.PostReceive(from, {.wr_id = 11, .sges = {a.Sge(0, 8)}}));
  ASSERT_TRUE(pair_.RunUntil([this] { return a.done.size() == 3; }));
  EXPECT_EQ(a.done[2].wr_id, 11u);
  // From RESET it can begin again.
  a.Modify(from, QpState::kReset);
  a.Modify(from, QpState::kInit);
  EXPECT_TRUE(pair_.Connect(from, b.Create(), kLocal + 1));
}

TEST_F(IwarpConnectTest, ResetAbortsTheConnection) {
  Program& from = a.Create();
  ASSERT_TRUE(pair_.Connect(from, b.Create()));
  a.Modify(from, QpState::kReset);
  ASSERT_TRUE(RunUntilTold(b, Event::kDisconnected));
  EXPECT_EQ(b.told.back().connection->endpoint().failure(), Failure::kReset);
}

// The first RST may be lost, and the peer has no reason to send anything.
TEST_F(IwarpConnectTest, AResetIsSentAgain) {
  Program& from = a.Create();
  ASSERT_TRUE(pair_.Connect(from, b.Create(), kLocal));
  a.Modify(from, QpState::kReset);
  ASSERT_TRUE(RunUntilTold(b, Event::kDisconnected));
  EXPECT_TRUE(pair_.RunUntil(
      [this] { return a.engine().counters().iwarp.out_rsts >= 3; }));
}

//= RFC 9293 3.6.1
TEST_F(IwarpConnectTest, OnlyThePeerMayReuseThePortsInTimeWait) {
  for (const bool passive : {false, true}) {
    Program& from = a.Create();
    Program& to = b.Create();
    const uint16_t local = passive ? kLocal : kLocal + 1;
    a.told.clear();
    b.told.clear();
    ASSERT_TRUE(pair_.Connect(from, to, local));
    IwarpConnection* const ours = from.qp->connection();
    IwarpConnection* const theirs = to.qp->connection();
    (passive ? b : a).Control([&](ConnectionTable& table) {
      table.Disconnect(passive ? *theirs : *ours);
    });
    // To forget a connection also closes it.
    ASSERT_TRUE(RunUntilTold(a, Event::kDisconnected));
    ASSERT_TRUE(RunUntilTold(b, Event::kDisconnected));
    Forget(a, ours);
    Forget(b, theirs);
    ASSERT_TRUE(RunUntilEmpty());
    if (passive) {
      EXPECT_TRUE(pair_.Connect(a.Create(), b.Create(), local));
    } else {
      EXPECT_TRUE(absl::IsAlreadyExists(
          a.TryConnect(a.Create(), b, local, kPort, "").status()));
    }
  }
}

TEST_F(IwarpConnectTest, AnRnicConnectsToItself) {
  Program& from = a.Create();
  Program& to = a.Create();
  a.Listen(kPort);
  a.acceptors = {&to};
  a.Connect(from, a, kLocal, kPort);
  ASSERT_TRUE(pair_.RunUntil([&] {
    return from.qp->core_state() == QpState::kRts &&
           to.qp->core_state() == QpState::kRts;
  }));
  ASSERT_TRUE(a.PostReceive(to, {.wr_id = 1, .sges = {a.Sge(4096, 64)}}));
  a.memory()[0] = 77;
  ASSERT_TRUE(a.PostSend(from, {.wr_id = 2, .sges = {a.Sge(0, 64)}}));
  ASSERT_TRUE(pair_.RunUntil([this] { return a.done.size() == 2; }));
  EXPECT_EQ(a.memory()[4096], 77);
}

TEST_F(IwarpConnectTest, ThePeersOfAnEngineThatEndsAreTold) {
  ASSERT_TRUE(pair_.Connect(a.Create(), b.Create()));
  b.End();
  while (!a.has_told(Event::kDisconnected)) a.engine().Progress();
  EXPECT_EQ(EventsOf(a),
            (std::vector{Event::kConnected, Event::kDisconnected}));
}

TEST_F(IwarpConnectTest, WhatCannotBeConnectedIsAnError) {
  Program& from = a.Create();
  const std::string long_text(600, 'x');
  EXPECT_TRUE(absl::IsInvalidArgument(
      a.TryConnect(from, b, kLocal, kPort, long_text).status()));
  a.Connect(from, b, kLocal, kPort);
  EXPECT_TRUE(absl::IsInvalidArgument(
      a.TryConnect(from, b, kLocal + 1, kPort, "").status()));
  EXPECT_TRUE(absl::IsAlreadyExists(
      a.TryConnect(a.Create(), b, kLocal, kPort, "").status()));
  Program& reset = a.Create();
  a.Modify(reset, QpState::kReset);
  EXPECT_TRUE(absl::IsInvalidArgument(
      a.TryConnect(reset, b, kLocal + 1, kPort, "").status()));
  a.Listen(kPort);
  a.Control([&](ConnectionTable& table) {
    class None final : public ConnectionEvents {
      void OnConnectionEvent(IwarpConnection&, Event) override {}
    } none;
    EXPECT_TRUE(absl::IsAlreadyExists(
        table.Listen({.local = a.gid(), .port = kPort, .events = &none})
            .status()));
  });
}

TEST_F(IwarpConnectTest, AThousandConnectionsAtATime) {
  constexpr uint16_t kMany = 1000;
  b.Listen(kPort, kMany);
  for (uint16_t i = 0; i < kMany; ++i) {
    b.acceptors.push_back(&b.Create());
    a.Connect(a.Create(), b, static_cast<uint16_t>(kLocal + i), kPort);
    if (i % 16 == 0) pair_.Step();
  }
  ASSERT_TRUE(pair_.RunUntil([&] { return b.told.size() == 2 * kMany; }));
  ASSERT_TRUE(pair_.RunUntil([&] { return a.told.size() == kMany; }));
  EXPECT_EQ(a.connections().size(), kMany);
}

// 64 K connections must fit into 8 GB, with their queue pairs.
TEST(IwarpConnectOptionsTest, AnIdleConnectionIsSmall) {
  const ConnectionLimits limits;
  EXPECT_LE(sizeof(IwarpConnection) +
                limits.kept_per_connection * sizeof(iwarp::KeptFpdu),
            size_t{16} << 10);
  EXPECT_LE(sizeof(IwarpQp), size_t{2} << 10);
}

TEST(IwarpConnectOptionsTest, ConnectionsOverIpv6) {
  IwarpPair pair("iwc6", {.ipv6 = true});
  EXPECT_TRUE(pair.Connect(pair.a.Create(), pair.b.Create()));
}

TEST(IwarpConnectOptionsTest, ATableOfConnectionsHasALimit) {
  IwarpPair pair("iwcl", {.limits = {.max_connections = 1}});
  ASSERT_TRUE(pair.Connect(pair.a.Create(), pair.b.Create()));
  EXPECT_TRUE(absl::IsResourceExhausted(
      pair.a.TryConnect(pair.a.Create(), pair.b, 2001, 7000, "").status()));
}

}  // namespace
}  // namespace urnic
