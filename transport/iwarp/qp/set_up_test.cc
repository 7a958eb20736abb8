// How a connection begins, or does not.

#include <gmock/gmock.h>

#include <memory>

#include "transport/iwarp/qp/endpoint_fixture.h"

namespace urnic::iwarp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SetUpTest : public ::testing::Test {
 protected:
  // A message of 20 bytes.
  void SendFrom(TestEnd& from, TestEnd& to) {
    from.program.Fill(0, 20, 1);
    ASSERT_TRUE(to.program.Recv(7, {to.program.Sge(4096, 20)}));
    ASSERT_TRUE(from.Post({.wr_id = 5, .sges = {from.program.Sge(0, 20)}}));
  }
  void ExpectReceived(TestEnd& from, TestEnd& to) {
    ASSERT_THAT(to.program.received, SizeIs(1));
    EXPECT_EQ(to.program.received[0].status, URNIC_WC_SUCCESS);
    EXPECT_EQ(to.program.Read(4096, 20), from.program.Read(0, 20));
  }

  Link link;
  TestEnd& a = link.a;
  TestEnd& b = link.b;
};

// The RTR is one of the reads that the responder takes at a time.
TEST_F(SetUpTest, AReadWaitsForTheAnswerOfTheRtrRead) {
  a.setup.peer_to_peer = true;
  a.setup.rtr_kinds = mpa::kRtrRead;
  a.setup.ord = b.setup.ird = a.config.ord = b.config.ird = 1;
  a.Connect(link.now);
  ASSERT_TRUE(link.RunUntil([this] { return a.has(Event::kConnected); }));
  a.Post({.opcode = URNIC_WR_RDMA_READ,
          .wr_id = 1,
          .sges = {a.program.Sge(65536, 100)},
          .remote_addr = b.program.at(0),
          .rkey = b.program.key()});
  link.Run();
  ASSERT_THAT(a.program.sent, SizeIs(1));
  EXPECT_EQ(a.program.sent[0].status, URNIC_WC_SUCCESS);
}

//= RFC 5044 7.1.1
TEST_F(SetUpTest, PrivateDataArrivesInBothDirections) {
  a.private_data = FromText("hello");
  b.private_data = FromText("welcome");
  ASSERT_TRUE(link.Connect());
  EXPECT_THAT(a.events, ElementsAre(Event::kConnected));
  EXPECT_THAT(b.events, ElementsAre(Event::kRequest, Event::kConnected));
  EXPECT_EQ(b.peer_private_data, FromText("hello"));
  EXPECT_EQ(a.peer_private_data, FromText("welcome"));
  EXPECT_EQ(a.program.qp().state(), QpState::kRts);
  EXPECT_EQ(b.program.qp().state(), QpState::kRts);
}

TEST_F(SetUpTest, AFrameMayBeLongerThanASegment) {
  a.tcp_config.offer.mss = 300;
  a.private_data = Bytes(480, 'x');
  link.faults.loss_percent = 30;
  a.setup.timeout = b.setup.timeout = Duration::Seconds(150);
  ASSERT_TRUE(link.Connect());
  EXPECT_EQ(b.peer_private_data, a.private_data);
}

TEST_F(SetUpTest, TheQueuePairIsNotTouchedBeforeTheReply) {
  b.accepts = false;
  a.Connect(link.now);
  link.Run(Duration::Seconds(1));
  EXPECT_THAT(b.events, ElementsAre(Event::kRequest));
  EXPECT_EQ(a.program.qp().state(), QpState::kInit);
  EXPECT_EQ(b.program.qp().state(), QpState::kInit);
  EXPECT_EQ(b.endpoint->set_up().responder().Proposed().ord, 8u);
  EXPECT_TRUE(b.endpoint->Accept(b.attachment(), {}, link.now));
  ASSERT_TRUE(link.RunUntil([this] { return a.has(Event::kConnected); }));
}

//= RFC 5044 7.1.1
TEST_F(SetUpTest, ARejectHasPrivateDataAndClosesTheConnection) {
  b.accepts = false;
  a.Connect(link.now);
  ASSERT_TRUE(link.RunUntil([this] { return b.has(Event::kRequest); }));
  EXPECT_TRUE(b.endpoint->Reject(FromText("no"), link.now));
  EXPECT_FALSE(b.endpoint->Accept(b.attachment(), {}, link.now));
  link.Run();
  EXPECT_THAT(a.events, ElementsAre(Event::kRejected));
  EXPECT_EQ(a.peer_private_data, FromText("no"));
  EXPECT_THAT(b.events, ElementsAre(Event::kRequest));
  EXPECT_EQ(a.program.qp().state(), QpState::kInit);
  EXPECT_TRUE(a.clean());
  EXPECT_TRUE(b.clean());
}

TEST_F(SetUpTest, WithoutAListenerTheConnectionIsRefused) {
  link.listening = false;
  a.Connect(link.now);
  link.Run();
  EXPECT_THAT(a.events, ElementsAre(Event::kFailed));
  EXPECT_EQ(a.endpoint->failure(), Failure::kRefused);
  EXPECT_TRUE(a.clean());
}

//= RFC 5044 7.1.2
TEST_F(SetUpTest, ASilentResponderIsGivenUp) {
  b.accepts = false;
  a.Connect(link.now);
  const Time start = link.now;
  ASSERT_TRUE(link.RunUntil([this] { return a.has(Event::kFailed); }));
  EXPECT_EQ(a.endpoint->failure(), Failure::kTimedOut);
  EXPECT_EQ(link.now, start + a.setup.timeout);
  link.Run();
  EXPECT_TRUE(a.clean());
  // Its program was told of the request, so it is told of the end.
  EXPECT_THAT(b.events, ElementsAre(Event::kRequest, Event::kFailed));
  EXPECT_EQ(b.endpoint->failure(), Failure::kReset);
  EXPECT_FALSE(b.endpoint->Accept(b.attachment(), {}, link.now));
  EXPECT_FALSE(b.endpoint->Reject({}, link.now));
}

TEST_F(SetUpTest, WithoutAnyAnswerTheSameTimeOutApplies) {
  link.faults.loss_percent = 100;
  a.Connect(link.now);
  link.Run();
  EXPECT_THAT(a.events, ElementsAre(Event::kFailed));
  EXPECT_EQ(a.endpoint->failure(), Failure::kTimedOut);
}

//= RFC 5044 7.1.2
TEST_F(SetUpTest, ASilentInitiatorIsGivenUpWithoutAnEvent) {
  link.tamper_to_b = [](Packet& packet) { return packet.payload.empty(); };
  a.setup.timeout = Duration::Seconds(60);
  a.Connect(link.now);
  ASSERT_TRUE(link.RunUntil([this] {
    return b.endpoint->connection().state() == tcp::State::kEstablished;
  }));
  link.Run();
  EXPECT_THAT(b.events, IsEmpty());
  EXPECT_EQ(b.endpoint->failure(), Failure::kTimedOut);
  EXPECT_TRUE(b.clean());
}

// A responder of revision 1 closes TCP when it sees revision 2.
//= RFC 6581 10
TEST_F(SetUpTest, TheSecondAttemptUsesRevision1) {
  b.setup.revision = 1;
  a.Connect(link.now);
  link.Run();
  EXPECT_THAT(a.events, ElementsAre(Event::kRetryRevision1));
  EXPECT_THAT(b.events, IsEmpty());
  EXPECT_EQ(link.verdicts[RxVerdict::kMpaBadFrame], 1u);
  EXPECT_EQ(a.program.qp().state(), QpState::kInit);
  EXPECT_TRUE(a.clean());
  a.events.clear();
  a.Renew();
  b.Renew();
  a.setup.revision = 1;
  a.tcp_config.iss = a.tcp_config.iss + 1'000'000;
  ASSERT_TRUE(link.Connect());
  EXPECT_EQ(a.endpoint->set_up().agreement().revision, 1);
  SendFrom(a, b);
  link.Run();
  ExpectReceived(a, b);
}

//= RFC 5044 7.1.2
TEST_F(SetUpTest, TheResponderSendsNothingBeforeTheFirstFpdu) {
  ASSERT_TRUE(link.Connect());
  SendFrom(b, a);
  link.Run(Duration::Seconds(5));
  EXPECT_THAT(a.program.received, IsEmpty());
  EXPECT_TRUE(b.program.sent.empty());
  SendFrom(a, b);
  link.Run();
  ExpectReceived(b, a);
  ExpectReceived(a, b);
}

//= RFC 6581 9
TEST_F(SetUpTest, AfterEachKindOfRtrTheResponderMaySendFirst) {
  for (const mpa::RtrKinds kind :
       {mpa::kRtrZeroFpdu, mpa::kRtrWrite, mpa::kRtrRead}) {
    SCOPED_TRACE(int{kind});
    const auto owner = std::make_unique<Link>();
    Link& other = *owner;
    other.a.setup.peer_to_peer = true;
    other.b.setup.rtr_kinds = kind;
    other.faults.loss_percent = 10;
    ASSERT_TRUE(other.Connect());
    EXPECT_EQ(other.a.endpoint->set_up().agreement().rtr, kind);
    SendFrom(other.b, other.a);
    other.Run();
    ExpectReceived(other.b, other.a);
    EXPECT_THAT(other.b.program.sent, SizeIs(1));
    EXPECT_THAT(other.a.program.sent, IsEmpty());
  }
}

// Linux siw loses an FPDU that comes at once behind its reply.
TEST_F(SetUpTest, TheFirstFpduWaitsIfThePeerIsNotAUrnic) {
  for (const bool urnic : {true, false}) {
    const auto fresh = std::make_unique<Link>();
    fresh->b.tcp_config.offer.urnic = urnic;
    fresh->a.Connect(fresh->now);
    ASSERT_TRUE(
        fresh->RunUntil([&] { return fresh->a.has(Event::kConnected); }));
    const Time told = fresh->now;
    std::optional<Duration> waited;
    fresh->tamper_to_b = [&](Packet& packet) {
      if (!packet.payload.empty() && !waited) waited = fresh->now - told;
      return true;
    };
    SendFrom(fresh->a, fresh->b);
    fresh->Run();
    ExpectReceived(fresh->a, fresh->b);
    ASSERT_TRUE(waited.has_value());
    if (urnic) {
      EXPECT_EQ(*waited, Duration());
    } else {
      EXPECT_GE(*waited, Duration::Milliseconds(2));
      EXPECT_LE(*waited, Duration::Milliseconds(10));
    }
  }
}

TEST_F(SetUpTest, WithoutTheRtrMessageTheResponderIsNotConnected) {
  a.setup.peer_to_peer = true;
  uint64_t segments = 0;
  link.tamper_to_b = [&segments](Packet& packet) {
    return packet.payload.empty() || segments++ == 0;
  };
  a.Connect(link.now);
  ASSERT_TRUE(link.RunUntil([this] { return b.has(Event::kFailed); }));
  EXPECT_THAT(b.events, ElementsAre(Event::kRequest, Event::kFailed));
  EXPECT_EQ(b.endpoint->failure(), Failure::kTimedOut);
  EXPECT_EQ(b.program.qp().state(), QpState::kErr);
}

//= RFC 6581 8
TEST_F(SetUpTest, AReplyThatDoesNotFitIsAnsweredByATerminate) {
  a.setup.peer_to_peer = true;
  a.setup.rtr_kinds = mpa::kRtrWrite;
  b.setup.rtr_kinds = mpa::kRtrRead;
  a.Connect(link.now);
  link.Run();
  EXPECT_THAT(a.events, ElementsAre(Event::kFailed));
  EXPECT_EQ(a.endpoint->failure(), Failure::kProtocol);
  EXPECT_EQ(link.verdicts[RxVerdict::kTerminateReceived], 1u);
  EXPECT_EQ(b.events.back(), Event::kDisconnected);
  EXPECT_TRUE(a.clean());
  EXPECT_TRUE(b.clean());
}

TEST_F(SetUpTest, TheDepthsOfBothEndsMeet) {
  a.setup.ird = 2;
  a.setup.ord = 8;
  b.config.ird = 4;
  b.config.ord = 6;
  ASSERT_TRUE(link.Connect());
  const mpa::Agreement& at_a = a.endpoint->set_up().agreement();
  const mpa::Agreement& at_b = b.endpoint->set_up().agreement();
  EXPECT_EQ(at_a.ord, 4u);
  EXPECT_EQ(at_a.ird, 2u);
  EXPECT_EQ(at_b.ord, 2u);
  EXPECT_EQ(at_b.ird, 4u);
}

TEST_F(SetUpTest, SegmentsTooSmallForMessagesAreRefused) {
  a.tcp_config.offer.mss = 120;
  a.setup.revision = 1;
  a.Connect(link.now);
  link.Run();
  EXPECT_EQ(a.events.back(), Event::kFailed);
  EXPECT_EQ(b.events.back(), Event::kFailed);
  EXPECT_EQ(b.endpoint->failure(), Failure::kProtocol);
  EXPECT_TRUE(a.clean());
  EXPECT_TRUE(b.clean());
}

TEST_F(SetUpTest, AQueuePairThatFailedMeanwhileIsNotConnected) {
  b.accepts = false;
  a.Connect(link.now);
  ASSERT_TRUE(link.RunUntil([this] { return b.has(Event::kRequest); }));
  a.program.qp().Modify(QpState::kErr, {});
  EXPECT_TRUE(b.endpoint->Accept(b.attachment(), {}, link.now));
  link.Run();
  EXPECT_THAT(a.events, ElementsAre(Event::kFailed));
  EXPECT_EQ(a.endpoint->failure(), Failure::kAborted);
  EXPECT_EQ(b.events.back(), Event::kDisconnected);
  EXPECT_EQ(b.endpoint->failure(), Failure::kReset);
}

TEST_F(SetUpTest, AnInitiatorMayGiveUpAtAnyTime) {
  for (int steps = 0; steps < 6; ++steps) {
    SCOPED_TRACE(steps);
    const auto owner = std::make_unique<Link>();
    Link& other = *owner;
    other.b.accepts = false;
    other.a.Connect(other.now);
    for (int i = 0; i < steps; ++i) (void)other.Step(Time::Infinite());
    other.a.endpoint->Detach(other.now);
    other.a.Finish(other.now);
    EXPECT_THAT(other.a.events, ElementsAre(Event::kFailed));
    other.Run();
    EXPECT_TRUE(other.a.clean());
  }
}

}  // namespace
}  // namespace urnic::iwarp
