// How a connection ends.

#include <gmock/gmock.h>

#include "transport/iwarp/qp/endpoint_fixture.h"

namespace urnic::iwarp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class EndTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(link.Connect()); }

  // A write of a into the memory of b.
  SendWr WriteWr(uint64_t wr_id, uint32_t bytes) {
    return {.opcode = URNIC_WR_RDMA_WRITE,
            .wr_id = wr_id,
            .sges = {a.program.Sge(0, bytes)},
            .remote_addr = b.program.at(0),
            .rkey = b.program.key()};
  }
  void ExpectBothClosed() {
    for (TestEnd* end : {&a, &b}) {
      EXPECT_EQ(end->events.back(), Event::kDisconnected);
      EXPECT_EQ(end->program.qp().state(), QpState::kErr);
      EXPECT_TRUE(end->clean());
    }
  }

  Link link;
  TestEnd& a = link.a;
  TestEnd& b = link.b;
};

TEST_F(EndTest, ADisconnectEndsBothSidesAndFlushes) {
  b.program.Recv(1, {b.program.Sge(0, 10)});
  a.program.Recv(2, {a.program.Sge(0, 10)});
  a.endpoint->Disconnect(link.now);
  link.Run();
  ExpectBothClosed();
  ASSERT_THAT(a.program.received, SizeIs(1));
  ASSERT_THAT(b.program.received, SizeIs(1));
  EXPECT_EQ(a.program.received[0].status, URNIC_WC_WR_FLUSH_ERR);
  EXPECT_EQ(b.program.received[0].status, URNIC_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a.endpoint->failure(), Failure::kNone);
  EXPECT_EQ(b.endpoint->failure(), Failure::kNone);
  EXPECT_EQ(a.endpoint->connection().state(), tcp::State::kTimeWait);
  EXPECT_EQ(b.endpoint->connection().ended(), tcp::End::kClosed);
}

TEST_F(EndTest, BothMayDisconnectAtTheSameTime) {
  a.endpoint->Disconnect(link.now);
  b.endpoint->Disconnect(link.now);
  link.faults.loss_percent = 20;
  link.Run();
  EXPECT_EQ(a.events.back(), Event::kDisconnected);
  EXPECT_EQ(b.events.back(), Event::kDisconnected);
  EXPECT_TRUE(a.endpoint->done() && b.endpoint->done());
}

TEST_F(EndTest, AQueuePairMovedToErrorEndsTheConnection) {
  a.program.qp().Modify(QpState::kErr, {});
  a.endpoint->Disconnect(link.now);
  link.Run();
  ExpectBothClosed();
}

// A message that completed when it was sent arrives, also if it is lost first
// and the program disconnects meanwhile.
TEST_F(EndTest, WhatCompletedArrivesInSpiteOfADisconnect) {
  b.program.Recv(1, {b.program.Sge(0, 100)});
  a.program.Fill(0, 20, 1);
  a.Post({.wr_id = 5, .sges = {a.program.Sge(0, 20)}});
  link.faults.loss_percent = 100;
  (void)link.Step(link.now);
  ASSERT_THAT(a.program.sent, SizeIs(1));
  EXPECT_EQ(a.program.sent[0].status, URNIC_WC_SUCCESS);
  a.endpoint->Disconnect(link.now);
  link.faults.loss_percent = 0;
  a.program.Fill(0, 20, 99);
  link.Run();
  ExpectBothClosed();
  ASSERT_THAT(b.program.received, SizeIs(1));
  EXPECT_EQ(b.program.received[0].status, URNIC_WC_SUCCESS);
  EXPECT_EQ(b.program.Read(0, 1), Bytes{1});
}

TEST_F(EndTest, AnAbortResetsThePeer) {
  a.Post(WriteWr(1, 100));
  b.endpoint->Abort(link.now);
  link.Run();
  ExpectBothClosed();
  EXPECT_EQ(a.endpoint->failure(), Failure::kReset);
  EXPECT_EQ(b.endpoint->failure(), Failure::kAborted);
  ASSERT_THAT(a.program.sent, SizeIs(1));
  EXPECT_EQ(a.program.sent[0].status, URNIC_WC_WR_FLUSH_ERR);
}

// What was cut and not sent cannot be built after the flush. So the stream does
// not end in order, and has no FIN.
TEST_F(EndTest, ALostStreamHasNoFin) {
  a.Post(WriteWr(1, 60000));
  (void)link.Step(link.now);
  a.endpoint->Disconnect(link.now);
  bool fin = false;
  link.tamper_to_b = [&fin](Packet& packet) {
    fin |= packet.fields.Has(wire::kTcpFin);
    return true;
  };
  link.Run();
  EXPECT_FALSE(fin);
  ExpectBothClosed();
}

TEST_F(EndTest, AnAbortReleasesWhatIsKept) {
  a.Post({.wr_id = 5, .sges = {a.program.Sge(0, 8)}});
  link.faults.loss_percent = 100;
  (void)link.Step(link.now);
  EXPECT_EQ(a.fpdus.kept(), 1u);
  a.endpoint->Abort(link.now);
  EXPECT_EQ(a.fpdus.kept(), 0u);
}

TEST_F(EndTest, APeerThatVanishesIsGivenUp) {
  a.answered = false;
  a.Post(WriteWr(1, 100));
  link.tamper_to_b = [](Packet&) { return false; };
  link.Run();
  EXPECT_EQ(a.events.back(), Event::kDisconnected);
  EXPECT_EQ(a.endpoint->failure(), Failure::kTimedOut);
  EXPECT_TRUE(a.timed_out);
  EXPECT_FALSE(a.answered);
  ASSERT_THAT(a.program.sent, SizeIs(1));
  EXPECT_EQ(a.program.sent[0].status, URNIC_WC_WR_FLUSH_ERR);
}

//= RFC 5040 4.8
TEST_F(EndTest, ARefusedReadIsAnsweredByATerminateAndAFin) {
  SendWr wr = WriteWr(1, 100);
  wr.opcode = URNIC_WR_RDMA_READ;
  wr.rkey ^= 0x100;
  a.Post(wr);
  link.Run();
  ExpectBothClosed();
  EXPECT_EQ(link.verdicts[RxVerdict::kDdpRefused], 1u);
  EXPECT_EQ(link.verdicts[RxVerdict::kTerminateReceived], 1u);
  ASSERT_THAT(a.program.sent, SizeIs(1));
  EXPECT_EQ(a.program.sent[0].status, URNIC_WC_REM_ACCESS_ERR);
  EXPECT_EQ(b.program.event, QpEvent::kAccessError);
  EXPECT_EQ(a.endpoint->failure(), Failure::kNone);
}

TEST_F(EndTest, ATerminateThatIsLostIsSentAgain) {
  SendWr wr = WriteWr(1, 100);
  wr.rkey ^= 0x100;
  a.Post(wr);
  bool lost = false;
  link.tamper_to_a = [&lost](Packet& packet) {
    return packet.payload.empty() || std::exchange(lost, true);
  };
  link.Run();
  EXPECT_TRUE(lost);
  ExpectBothClosed();
  EXPECT_EQ(link.verdicts[RxVerdict::kTerminateReceived], 1u);
}

// TCP's checksum does not find everything.
//= RFC 5044 8
TEST_F(EndTest, AWrongCrcIsAnsweredByATerminate) {
  a.Post(WriteWr(1, 10));
  link.Run();
  link.tamper_to_b = [](Packet& packet) {
    if (packet.payload.size() > 50) packet.payload[40] ^= 1;
    return true;
  };
  a.program.Fill(0, 100, 1);
  a.Post(WriteWr(2, 100));
  const Bytes before = b.program.Read(0, 100);
  link.Run();
  EXPECT_EQ(link.verdicts[RxVerdict::kMpaBadCrc], 1u);
  EXPECT_EQ(link.verdicts[RxVerdict::kTerminateReceived], 1u);
  EXPECT_EQ(b.program.Read(0, 100), before);
  ExpectBothClosed();
}

//= RFC 5044 7.1.2
TEST_F(EndTest, TheResponderClosesWithoutATerminateBeforeTheFirstFpdu) {
  link.tamper_to_b = [](Packet& packet) {
    if (packet.payload.size() > 50) packet.payload[40] ^= 1;
    return true;
  };
  a.Post(WriteWr(1, 100));
  link.Run();
  EXPECT_EQ(link.verdicts[RxVerdict::kMpaBadCrc], 1u);
  EXPECT_EQ(link.verdicts[RxVerdict::kTerminateReceived], 0u);
  ExpectBothClosed();
}

//= RFC 5044 8
TEST_F(EndTest, AFinWithinAnFpduIsAFailure) {
  a.program.Fill(0, 100, 1);
  link.tamper_to_b = [](Packet& packet) {
    if (packet.payload.empty()) return false;
    packet.payload.resize(50);
    packet.fields.flags |= wire::kTcpFin;
    return true;
  };
  a.Post(WriteWr(1, 100));
  ASSERT_TRUE(link.RunUntil([this] { return b.has(Event::kDisconnected); }));
  EXPECT_EQ(b.endpoint->failure(), Failure::kReset);
  EXPECT_EQ(b.program.qp().state(), QpState::kErr);
}

TEST_F(EndTest, WhatComesAfterTheEndIsIgnored) {
  // The refused write and what follows are in one burst of segments.
  SendWr wr = WriteWr(1, 100);
  wr.rkey ^= 0x100;
  a.Post(wr);
  for (uint64_t i = 2; i < 6; ++i) a.Post(WriteWr(i, 3000));
  a.program.Fill(0, 3000, 1);
  const Bytes before = b.program.Read(0, 3000);
  link.Run();
  EXPECT_EQ(b.program.Read(0, 3000), before);
  EXPECT_EQ(a.program.sent.size(), 5u);
  EXPECT_TRUE(a.endpoint->done() && b.endpoint->done());
}

TEST_F(EndTest, AnUnmappedSourceEndsTheConnection) {
  a.program.host().Break(0, 4096, urnic::testing::FakeHost::Damage::kUnmapped);
  a.Post(WriteWr(1, 2000));
  link.Run();
  ExpectBothClosed();
  ASSERT_THAT(a.program.sent, SizeIs(1));
  EXPECT_EQ(a.program.sent[0].status, URNIC_WC_LOC_PROT_ERR);
  EXPECT_EQ(a.endpoint->failure(), Failure::kAborted);
  EXPECT_EQ(b.endpoint->failure(), Failure::kReset);
}

TEST_F(EndTest, AnUnmappedTargetEndsTheConnectionWithATerminate) {
  b.program.host().Break(0, 4096, urnic::testing::FakeHost::Damage::kUnmapped);
  a.Post(WriteWr(1, 100));
  link.Run();
  ExpectBothClosed();
  EXPECT_EQ(link.verdicts[RxVerdict::kTerminateReceived], 1u);
  EXPECT_EQ(b.program.event, QpEvent::kFatal);
}

TEST_F(EndTest, TheQueuePairMayBeDestroyedFirst) {
  a.Post(WriteWr(1, 3000));
  (void)link.Step(link.now);
  a.endpoint->Detach(link.now);
  a.program.Settle({});
  link.Run();
  EXPECT_EQ(a.events.back(), Event::kDisconnected);
  EXPECT_EQ(b.events.back(), Event::kDisconnected);
  EXPECT_TRUE(a.clean());
  EXPECT_TRUE(b.clean());
}

TEST_F(EndTest, WithoutItsRequestASegmentCannotBeSentAgain) {
  a.Post(WriteWr(1, 3000));
  link.faults.loss_percent = 100;
  (void)link.Step(link.now);
  a.endpoint->Disconnect(link.now);
  a.Finish(link.now);
  link.faults.loss_percent = 0;
  link.Run();
  ExpectBothClosed();
  EXPECT_EQ(a.endpoint->connection().ended(), tcp::End::kAborted);
  EXPECT_EQ(a.endpoint->failure(), Failure::kNone) << "it had ended in order";
  EXPECT_EQ(b.endpoint->failure(), Failure::kReset);
}

}  // namespace
}  // namespace urnic::iwarp
