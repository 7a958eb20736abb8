// Requests that arrive between two listeners of a server.

#include "transport/cm/held_requests.h"

#include <gtest/gtest.h>

#include "tests/support/cm_pair.h"

namespace urnic::cm {
namespace {

class HeldRequestsTest : public ::urnic::testing::CmPair {
 protected:
  // Node 1 has closed its listener when the request of node 0 arrives.
  void ReachHeld() {
    Listen();
    ASSERT_EQ(manager(1).Unlisten(node(1).listener), 0);
    Connect();
    EXPECT_EQ(Deliver(0), RxVerdict::kCmNoListener);
    ExpectQuiet(1);
  }
  void Turn(int i) { manager(i).OnTimer(now_, sink(i)); }
  // The next message to node 0 is the REJ.
  void ExpectRejected() {
    Pass(1);
    EXPECT_EQ(Take(0, EventKind::kRejReceived).event.reject_reason,
              wire::kRejInvalidServiceId);
  }
};

TEST_F(HeldRequestsTest, TheNextListenerGetsIt) {
  ReachHeld();
  Listen();
  EXPECT_LE(manager(1).NextDeadline(), now_);
  Turn(1);
  Take(1, EventKind::kReqReceived);
  ASSERT_EQ(manager(1).Accept(handle(1), Reply(), now_, sink(1)), 0);
  Pass(1);
  Take(0, EventKind::kRepReceived);
}

TEST_F(HeldRequestsTest, AMaskedListenerGetsIt) {
  ReachHeld();
  ASSERT_EQ(manager(1).Listen(kService & ~0xffull, ~0xffull, kListenerUser,
                              node(1).listener),
            0);
  Turn(1);
  Take(1, EventKind::kReqReceived);
}

TEST_F(HeldRequestsTest, ItIsRejectedWhenNoneComes) {
  ReachHeld();
  const Time due = now_ + HeldRequests::kPatience;
  EXPECT_EQ(manager(1).NextDeadline(), due);
  now_ = due - Duration::Nanoseconds(1);
  Turn(1);
  ExpectQuiet(1);
  now_ = due;
  Turn(1);
  ExpectRejected();
  EXPECT_TRUE(manager(1).NextDeadline().IsInfinite());
}

TEST_F(HeldRequestsTest, AnotherServiceIsRejectedImmediately) {
  Listen();
  ASSERT_EQ(manager(1).Unlisten(node(1).listener), 0);
  ConnectParams other = Request();
  other.service_id = kService + 1;
  Connect(0, other);
  EXPECT_EQ(Deliver(0), RxVerdict::kCmNoListener);
  ExpectRejected();
}

TEST_F(HeldRequestsTest, ItsRepetitionIsTheSameRequest) {
  ReachHeld();
  now_ = manager(0).NextDeadline();
  manager(0).OnTimer(now_, sink(0));
  EXPECT_EQ(Deliver(0), RxVerdict::kCmNoListener);
  Listen();
  Turn(1);
  Take(1, EventKind::kReqReceived);
  ExpectQuiet(1);
}

TEST_F(HeldRequestsTest, ItIsForgottenWhenItsPeerGivesUp) {
  ReachHeld();
  ASSERT_EQ(manager(0).Destroy(handle(0), now_, sink(0)), 0);
  EXPECT_EQ(Deliver(0), RxVerdict::kCmNoConnection);
  Listen();
  Turn(1);
  ExpectQuiet(1);
}

TEST_F(HeldRequestsTest, OneTooManyIsRejectedImmediately) {
  ReachHeld();
  for (uint32_t i = 1; i <= HeldRequests::kMost; ++i) {
    ConnectParams more = Request();
    more.qpn = Qpn{0x300 + i};
    Connect(0, more);
    EXPECT_EQ(Deliver(0), RxVerdict::kCmNoListener);
    EXPECT_EQ(sink(1).mads.size(), i < HeldRequests::kMost ? 0u : 1u);
  }
}

TEST_F(HeldRequestsTest, ItIsRejectedWhenTheProgramEnds) {
  ReachHeld();
  EXPECT_EQ(
      manager(1).HurryDisconnects(Duration::Milliseconds(1), 9, now_, sink(1)),
      0u);
  ExpectRejected();
}

}  // namespace
}  // namespace urnic::cm
