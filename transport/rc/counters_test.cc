// What the two halves of a queue pair count in RoceCounters. Verdicts tell the
// rest (RoceCounters::AddVerdicts()).

#include <gmock/gmock.h>

#include "tests/support/matchers.h"
#include "tests/support/rc_fixture.h"
#include "transport/work/timers.h"

namespace urnic::rc {
namespace {

using testing::Ack;
using testing::Nak;
using testing::ReadResponse;
using testing::RnrNak;
using testing::Send;
using testing::Write;
using wire::Opcode;

class RcCountersTest : public testing::RcFixture {
 protected:
  const RoceCounters& Counted() const { return end_.counters(); }
  void PassTimeout() {
    now_ = end_.qp().NextDeadline();
    end_.AdvanceTo(now_);
    (void)Transmit();
  }
};

TEST_F(RcCountersTest, EachRequestBehindAGapIsOutOfSequence) {
  Connect();
  (void)Deliver(Write(Psn(201), At(0), key_).Data(8));
  (void)Deliver(Write(Psn(202), At(0), key_).Data(8));
  EXPECT_EQ(Counted().out_of_sequence, 2u);
  // The held ones are due then, and in sequence.
  (void)Deliver(Write(Psn(200), At(0), key_).Data(8));
  EXPECT_EQ(end_.qp().recv_psn(), Psn(203));
  EXPECT_EQ(Counted().out_of_sequence, 2u);
}

TEST_F(RcCountersTest, WhatFollowsAnRnrNakIsInSequence) {
  Connect();
  EXPECT_EQ(Deliver(Send(Psn(200)).Data(8)), RxVerdict::kRnrNak);
  EXPECT_EQ(Deliver(Send(Psn(201)).Data(8)), RxVerdict::kAfterGap);
  EXPECT_EQ(Counted().out_of_sequence, 0u);
}

TEST_F(RcCountersTest, AMessageLongerThanItsReceiveIsALengthError) {
  Connect();
  ASSERT_TRUE(end_.PostRecv({.wr_id = 1, .sges = {Sge(0, 4)}}));
  ASSERT_TRUE(end_.PostRecv({.wr_id = 2, .sges = {Sge(0, 4)}}));
  EXPECT_EQ(Deliver(Send(Psn(200)).Data(8)), RxVerdict::kInvalidRequest);
  (void)Transmit();
  EXPECT_EQ(Counted().resp_local_length_error, 1u);
  EXPECT_EQ(Counted().resp_cqe_error, 2u) << "it, and the flushed one";
  EXPECT_EQ(Counted().resp_cqe_flush_error, 1u);
}

TEST_F(RcCountersTest, AWrongKeyIsARemoteAccessErrorOfTheResponder) {
  Connect();
  EXPECT_EQ(Deliver(Write(Psn(200), At(0), key_ + 256).Data(8)),
            RxVerdict::kRemoteAccess);
  EXPECT_EQ(Counted().resp_remote_access_errors, 1u);
}

TEST_F(RcCountersTest, AReceiveInMissingMemoryIsAFailedReceive) {
  Connect();
  ASSERT_TRUE(end_.PostRecv({.wr_id = 1, .sges = {Sge(0, 8)}}));
  host_.Break(0, 8, testing::FakeHost::Damage::kUnmapped);
  (void)Deliver(Send(Psn(200)).Data(8));
  EXPECT_EQ(Counted().resp_cqe_error, 1u);
  EXPECT_EQ(Counted().resp_cqe_flush_error, 0u);
}

TEST_F(RcCountersTest, ANotificationIsCountedWhenItIsSent) {
  Connect();
  (void)end_.Deliver(Write(Psn(200), At(0), key_).Data(8), now_,
                     /*marked=*/true);
  EXPECT_EQ(Counted().np_cnp_sent, 0u);
  (void)Transmit();
  EXPECT_EQ(Counted().np_cnp_sent, 1u);
}

TEST_F(RcCountersTest, SequenceNaksAreCounted) {
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 1, 512));
  (void)Transmit();
  (void)Deliver(Nak(Psn(100), wire::kNakPsnSequenceError));
  EXPECT_EQ(Counted().packet_seq_err, 1u);
  EXPECT_EQ(Counted().implied_nak_seq_err, 0u);
}

TEST_F(RcCountersTest, AResponseBehindAMissingOneIsAnImpliedNak) {
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_RDMA_READ, 1, 600));
  (void)Transmit();
  (void)Deliver(
      ReadResponse(Opcode::kRcReadResponseMiddle, Psn(101)).Data(256));
  EXPECT_EQ(Counted().implied_nak_seq_err, 1u);
  EXPECT_EQ(Counted().out_of_sequence, 0u) << "of requests";
}

TEST_F(RcCountersTest, TimeoutsWithAndWithoutARetryAreDifferentCounters) {
  config_.retry_count = 2;
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 1, 8));
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 2, 8));
  (void)Transmit();
  PassTimeout();
  PassTimeout();
  EXPECT_EQ(Counted().local_ack_timeout_err, 2u);
  EXPECT_EQ(Counted().req_transport_retries_exceeded, 0u);
  EXPECT_EQ(Counted().req_cqe_error, 0u);
  PassTimeout();
  EXPECT_EQ(Counted().local_ack_timeout_err, 2u);
  EXPECT_EQ(Counted().req_transport_retries_exceeded, 1u);
  EXPECT_EQ(Counted().req_cqe_error, 2u) << "it, and the flushed one";
  EXPECT_EQ(Counted().req_cqe_flush_error, 1u);
}

TEST_F(RcCountersTest, RnrNaksWithAndWithoutARetryAreDifferentCounters) {
  config_.rnr_retry = 1;
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_SEND, 1, 8));
  (void)Transmit();
  (void)Deliver(RnrNak(Psn(100), 1));
  PassTimeout();
  EXPECT_EQ(Counted().rnr_nak_retry_err, 1u);
  EXPECT_EQ(Counted().req_rnr_retries_exceeded, 0u);
  (void)Deliver(RnrNak(Psn(100), 1));
  EXPECT_EQ(Counted().rnr_nak_retry_err, 1u);
  EXPECT_EQ(Counted().req_rnr_retries_exceeded, 1u);
}

TEST_F(RcCountersTest, FatalNaksAreCountedByTheirReason) {
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 1, 8));
  (void)Transmit();
  (void)Deliver(Nak(Psn(100), wire::kNakRemoteAccessError));
  EXPECT_EQ(Counted().req_remote_access_errors, 1u);
  EXPECT_EQ(Counted().req_remote_invalid_request, 0u);

  testing::Endpoint other(host_, {});
  other.Connect(config_);
  ASSERT_TRUE(other.PostSend({.opcode = URNIC_WR_SEND,
                              .flags = URNIC_SEND_SIGNALED,
                              .sges = {Sge(0, 8)}}));
  (void)other.Transmit(now_);
  (void)other.Deliver(Nak(Psn(100), wire::kNakInvalidRequest), now_);
  EXPECT_EQ(other.counters().req_remote_invalid_request, 1u);
  EXPECT_EQ(other.counters().req_remote_access_errors, 0u);
}

TEST_F(RcCountersTest, ANotificationIsIgnoredWhereNothingIsSent) {
  config_.dest_qpn = 0x22;
  end_.qp().Modify(QpState::kInit, config_);
  end_.qp().Modify(QpState::kRtr, config_);
  EXPECT_EQ(end_.qp().OnCnp(now_), RxVerdict::kCnpIgnored);
  end_.qp().Modify(QpState::kRts, config_);
  EXPECT_EQ(end_.qp().OnCnp(now_), RxVerdict::kCnp);
}

// A move does not count twice: the counters are the engine's.
TEST_F(RcCountersTest, AMoveLeavesTheCounters) {
  Connect();
  (void)Deliver(Write(Psn(201), At(0), key_).Data(8));
  ASSERT_TRUE(end_.Become(end_.Image(now_), now_, Duration()).ok());
  EXPECT_EQ(Counted().out_of_sequence, 1u);
}

TEST(RoceCountersTest, VerdictsTellTheRest) {
  EngineCounters all;
  const auto set = [&all](RxVerdict verdict, uint64_t value) {
    all.verdicts[static_cast<size_t>(verdict)] = value;
  };
  set(RxVerdict::kDuplicate, 1);
  set(RxVerdict::kDuplicateGone, 2);
  set(RxVerdict::kRnrNak, 4);
  set(RxVerdict::kNoReceive, 8);
  set(RxVerdict::kTooLong, 16);
  set(RxVerdict::kRefusedWrite, 32);
  set(RxVerdict::kCnp, 64);
  set(RxVerdict::kCnpIgnored, 128);
  set(RxVerdict::kBadIcrc, 256);
  all.roce.resp_local_length_error = 1;
  all.roce.resp_remote_access_errors = 1;
  all.roce.AddVerdicts(all.verdicts);
  EXPECT_EQ(all.roce.duplicate_request, 3u);
  EXPECT_EQ(all.roce.out_of_buffer, 12u);
  EXPECT_EQ(all.roce.resp_local_length_error, 17u);
  EXPECT_EQ(all.roce.resp_remote_access_errors, 33u);
  EXPECT_EQ(all.roce.rp_cnp_handled, 64u);
  EXPECT_EQ(all.roce.rp_cnp_ignored, 128u);
  EXPECT_EQ(all.roce.rx_icrc_encapsulated, 256u);
}

}  // namespace
}  // namespace urnic::rc
