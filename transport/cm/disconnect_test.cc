// Ending a connection: by either side, by both, by destroying the handle; and
// TIMEWAIT.

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/support/cm_pair.h"

namespace urnic::cm {
namespace {

using ::urnic::testing::SentMad;

class DisconnectTest : public ::urnic::testing::CmPair {
 protected:
  void ExpectGoneAfterTimewait(int i, uint32_t left) {
    while (Wait()) {
    }
    EXPECT_EQ(manager(i).in_use(), left);
  }
};

//= IBTA 12.9.8.4
TEST_F(DisconnectTest, EitherSideDisconnectsAndBothWait) {
  for (int first = 0; first < 2; ++first) {
    SetUp();
    ReachEstablished();
    const uint8_t data[] = {1, 2};
    ASSERT_EQ(manager(first).Disconnect(handle(first), data, now_, sink(first)),
              0);
    EXPECT_EQ(Deliver(first), RxVerdict::kAccept);
    EXPECT_EQ(Take(1 - first, EventKind::kDreqReceived).private_data[1], 2);
    ASSERT_EQ(manager(1 - first).SendDrep(handle(1 - first), data, now_,
                                          sink(1 - first)),
              0);
    EXPECT_EQ(Deliver(1 - first), RxVerdict::kAccept);
    EXPECT_EQ(Take(first, EventKind::kDrepReceived).private_data[1], 2);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(manager(i).state(handle(i)), State::kTimewait);
    }
    EXPECT_TRUE(manager(0).IsQpnBusy(Request().qpn));
    EXPECT_TRUE(manager(1).IsQpnBusy(Reply().qpn));
    while (Wait()) {
    }
    for (int i = 0; i < 2; ++i) {
      Take(i, EventKind::kTimewaitExit);
      EXPECT_EQ(manager(i).state(handle(i)), State::kIdle);
      ExpectQuiet(i);
    }
    EXPECT_FALSE(manager(0).IsQpnBusy(Request().qpn));
    EXPECT_FALSE(manager(1).IsQpnBusy(Reply().qpn));
  }
}

//= IBTA 12.9.8.4
TEST_F(DisconnectTest, TimewaitLastsTheAckTimeout) {
  ReachEstablished();
  QpAttributes qp;
  ASSERT_EQ(manager(0).GetQpAttributes(handle(0), qp), 0);
  ASSERT_EQ(manager(0).Disconnect(handle(0), {}, now_, sink(0)), 0);
  Pass(0);
  Take(1, EventKind::kDreqReceived);
  ASSERT_EQ(manager(1).SendDrep(handle(1), {}, now_, sink(1)), 0);
  Pass(1);
  EXPECT_EQ(manager(0).NextDeadline() - now_,
            Duration::Nanoseconds(4096ll << qp.ack_timeout_code));
}

//= IBTA 12.9.8.3.3
TEST_F(DisconnectTest, ADreqRepeatedInTimewaitGetsTheDrepAgain) {
  ReachEstablished();
  ASSERT_EQ(manager(0).Disconnect(handle(0), {}, now_, sink(0)), 0);
  const SentMad dreq = sink(0).mads.front();
  Pass(0);
  Take(1, EventKind::kDreqReceived);
  EXPECT_EQ(Give(1, dreq), RxVerdict::kCmDuplicate);
  ExpectQuiet(1);
  const uint8_t data[] = {5};
  ASSERT_EQ(manager(1).SendDrep(handle(1), data, now_, sink(1)), 0);
  const SentMad drep = sink(1).mads.front();
  sink(1).mads.clear();
  EXPECT_EQ(Give(1, dreq), RxVerdict::kCmDuplicate);
  ASSERT_EQ(sink(1).mads.size(), 1u);
  EXPECT_EQ(sink(1).mads.front().bytes, drep.bytes);
}

//= IBTA 12.9.8.3.3
TEST_F(DisconnectTest, ADreqOfAnUnknownConnectionGetsADrep) {
  ReachEstablished();
  ASSERT_EQ(manager(0).Disconnect(handle(0), {}, now_, sink(0)), 0);
  Restart(1, 64, 32);
  EXPECT_EQ(Deliver(0), RxVerdict::kCmNoConnection);
  EXPECT_EQ(Deliver(1), RxVerdict::kAccept);
  Take(0, EventKind::kDrepReceived);
}

TEST_F(DisconnectTest, ADreqThatNamesAnotherQpIsNotFromThePeer) {
  ReachEstablished();
  ASSERT_EQ(manager(0).Disconnect(handle(0), {}, now_, sink(0)), 0);
  auto dreq = sink(0).mads.front().As<wire::CmDreq>();
  dreq.set_remote_qpn(Qpn{0x999});
  EXPECT_EQ(Give(1, dreq), RxVerdict::kCmWrongPeer);
  ExpectQuiet(1);
  EXPECT_EQ(manager(1).state(handle(1)), State::kEstablished);
}

TEST_F(DisconnectTest, BothSidesDisconnectAtTheSameTime) {
  ReachEstablished();
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(manager(i).Disconnect(handle(i), {}, now_, sink(i)), 0);
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Deliver(i), RxVerdict::kAccept);
    Take(1 - i, EventKind::kDreqReceived);
  }
  ASSERT_EQ(manager(0).SendDrep(handle(0), {}, now_, sink(0)), 0);
  EXPECT_EQ(Deliver(0), RxVerdict::kAccept);
  Take(1, EventKind::kDrepReceived);
  EXPECT_EQ(manager(1).state(handle(1)), State::kTimewait);
}

TEST_F(DisconnectTest, ADestroyedConnectionRepeatsItsDreqUntilAnswered) {
  ReachEstablished();
  const Handle gone = handle(0);
  ASSERT_EQ(manager(0).Destroy(gone, now_, sink(0)), 0);
  EXPECT_FALSE(manager(0).Exists(gone));
  EXPECT_EQ(manager(0).Destroy(gone, now_, sink(0)), EBADF);
  EXPECT_TRUE(manager(0).IsQpnBusy(Request().qpn));
  sink(0).mads.clear();  // lost
  ASSERT_TRUE(Wait());
  EXPECT_EQ(Deliver(0), RxVerdict::kAccept);
  Take(1, EventKind::kDreqReceived);
  ASSERT_EQ(manager(1).Destroy(handle(1), now_, sink(1)), 0);
  EXPECT_EQ(Deliver(1), RxVerdict::kAccept);
  ExpectQuiet(0);
  ExpectGoneAfterTimewait(0, 0);
  ExpectGoneAfterTimewait(1, 1);
  ExpectQuiet(0);
  ExpectQuiet(1);
  EXPECT_FALSE(manager(0).IsQpnBusy(Request().qpn));
}

TEST_F(DisconnectTest, AVanishedPeerLeavesNothing) {
  ReachEstablished();
  ASSERT_EQ(manager(0).Destroy(handle(0), now_, sink(0)), 0);
  ExpectGoneAfterTimewait(0, 0);
  EXPECT_EQ(sink(0).mads.size(), 1u + kRetries);
  EXPECT_TRUE(sink(0).events.empty());
}

TEST_F(DisconnectTest, TwoDestroyedEndsAnswerEachOther) {
  ReachEstablished();
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(manager(i).Destroy(handle(i), now_, sink(i)), 0);
  }
  EXPECT_EQ(Deliver(0), RxVerdict::kAccept);
  EXPECT_EQ(Deliver(1), RxVerdict::kAccept);
  EXPECT_EQ(Deliver(1), RxVerdict::kCmDuplicate);
  ExpectGoneAfterTimewait(0, 0);
  ExpectGoneAfterTimewait(1, 1);
}

TEST_F(DisconnectTest, DestroyingASetUpRejectsIt) {
  ReachReqReceived();
  ASSERT_EQ(manager(1).Destroy(handle(1), now_, sink(1)), 0);
  EXPECT_EQ(manager(1).in_use(), 1u);
  EXPECT_EQ(Deliver(1), RxVerdict::kAccept);
  EXPECT_EQ(Take(0, EventKind::kRejReceived).event.reject_reason,
            wire::kRejConsumerDefined);

  SetUp();
  ReachRepSent();
  ASSERT_EQ(manager(1).Destroy(handle(1), now_, sink(1)), 0);
  EXPECT_EQ(Deliver(1), RxVerdict::kAccept);
  Take(0, EventKind::kRepReceived);
  EXPECT_EQ(Deliver(1), RxVerdict::kAccept);
  Take(0, EventKind::kRejReceived);
  ExpectGoneAfterTimewait(1, 1);

  SetUp();
  ReachRepReceived();
  ASSERT_EQ(manager(0).Destroy(handle(0), now_, sink(0)), 0);
  EXPECT_EQ(manager(0).in_use(), 0u);
  EXPECT_EQ(Deliver(0), RxVerdict::kAccept);
  Take(1, EventKind::kRejReceived);
}

//= IBTA 12.8.1, 12.8.2, 12.8.2.1
TEST_F(DisconnectTest, ALoadAlternatePathIsRefused) {
  ReachEstablished();
  wire::CmLap lap;
  lap.mad.base_version = 1;
  lap.mad.management_class = wire::kMadClassCm;
  lap.mad.class_version = wire::kCmClassVersion;
  lap.mad.method = wire::kMadMethodSend;
  lap.mad.attribute_id = wire::Be<uint16_t>(wire::kCmLapAttribute);
  lap.local_comm_id = wire::Be<uint32_t>(manager(0).local_comm_id(handle(0)));
  lap.remote_comm_id = wire::Be<uint32_t>(manager(1).local_comm_id(handle(1)));
  EXPECT_EQ(Give(1, lap), RxVerdict::kCmRefused);
  EXPECT_EQ(sink(1).mads.back().As<wire::CmApr>().status,
            wire::kAprUnsupported);
  EXPECT_EQ(Deliver(1), RxVerdict::kCmUnexpected);
  lap.local_comm_id = wire::Be<uint32_t>(1);
  EXPECT_EQ(Give(1, lap), RxVerdict::kCmNoConnection);
  EXPECT_EQ(sink(1).mads.back().As<wire::CmApr>().status,
            wire::kAprInvalidCommId);
  EXPECT_EQ(manager(1).state(handle(1)), State::kEstablished);
}

// A program ends. Its peers learn of it, even if messages are lost.
TEST_F(DisconnectTest, AHurriedDisconnectIsRepeatedQuickly) {
  ReachEstablished();
  ASSERT_EQ(manager(0).Destroy(handle(0), now_, sink(0)), 0);
  ASSERT_EQ(sink(0).mads.size(), 1u);
  const Duration interval = Duration::Milliseconds(1);
  EXPECT_EQ(manager(0).HurryDisconnects(interval, 9, now_, sink(0)), 1u);
  const Time start = now_;
  for (int n = 1; n < 9; ++n) {
    EXPECT_EQ(manager(0).NextDeadline(), start + interval * n);
    now_ = manager(0).NextDeadline();
    manager(0).OnTimer(now_, sink(0));
  }
  EXPECT_EQ(sink(0).mads.size(), 1u + 8u);
  EXPECT_EQ(manager(0).unanswered_dreqs(), 1u);
  while (sink(0).mads.size() > 1) sink(0).mads.pop_front();  // lost
  Pass(0);
  Take(1, EventKind::kDreqReceived);
  ASSERT_EQ(manager(1).SendDrep(handle(1), {}, now_, sink(1)), 0);
  Pass(1);
  EXPECT_EQ(manager(0).unanswered_dreqs(), 0u);
  EXPECT_EQ(manager(0).HurryDisconnects(interval, 9, now_, sink(0)), 0u);
  EXPECT_TRUE(sink(0).mads.empty());
}

TEST_F(DisconnectTest, AHurriedDisconnectGivesUpOnASilentPeer) {
  ReachEstablished();
  ASSERT_EQ(manager(0).Destroy(handle(0), now_, sink(0)), 0);
  const Time start = now_;
  ASSERT_EQ(
      manager(0).HurryDisconnects(Duration::Milliseconds(1), 9, now_, sink(0)),
      1u);
  while (manager(0).unanswered_dreqs() > 0) {
    now_ = manager(0).NextDeadline();
    manager(0).OnTimer(now_, sink(0));
  }
  EXPECT_EQ(now_, start + Duration::Milliseconds(10));
}

}  // namespace
}  // namespace urnic::cm
