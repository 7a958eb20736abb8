// Repetitions: when, how often, and the message at the end.

#include <gtest/gtest.h>

#include "tests/support/cm_pair.h"

namespace urnic::cm {
namespace {

class TimersTest : public ::urnic::testing::CmPair {
 protected:
  // Lets time pass until node `i` gives up.
  void Exhaust(int i) {
    while (sink(i).events.empty() && Wait()) {
    }
  }
};

//= IBTA 12.6.7.2, 12.9.6, 12.9.8.1
TEST_F(TimersTest, ARequestIsRepeatedAsOftenAsAsked) {
  const Time start = now_;
  Connect();
  const auto first = sink(0).mads.front().bytes;
  EXPECT_EQ(manager(0).NextDeadline(), start + AnswerTime());
  manager(0).OnTimer(start + AnswerTime() - Duration::Nanoseconds(1), sink(0));
  EXPECT_EQ(sink(0).mads.size(), 1u);
  Exhaust(0);
  EXPECT_EQ(now_, start + AnswerTime() * (1 + kRetries));
  ASSERT_EQ(sink(0).mads.size(), 2u + kRetries);
  for (int i = 0; i <= kRetries; ++i) EXPECT_EQ(sink(0).mads[i].bytes, first);
  const auto rej = sink(0).mads.back().As<wire::CmRej>();
  EXPECT_EQ(rej.reason.value(), wire::kRejTimeout);
  EXPECT_EQ(rej.ari_bytes(), 8);
  Take(0, EventKind::kReqError);
  EXPECT_EQ(manager(0).state(handle(0)), State::kIdle);
  EXPECT_TRUE(manager(0).NextDeadline().IsInfinite());
}

TEST_F(TimersTest, AReplyIsRepeatedAsTheRequestGrants) {
  ReachRepSent();
  const Duration granted = Duration::Nanoseconds(4096ll << kTimeoutCode);
  EXPECT_EQ(manager(1).NextDeadline(), now_ + granted);
  const Time start = now_;
  while (sink(1).events.empty()) {
    now_ = manager(1).NextDeadline();
    manager(1).OnTimer(now_, sink(1));
  }
  EXPECT_EQ(now_, start + granted * (1 + kRetries));
  EXPECT_EQ(sink(1).mads.size(), 2u + kRetries);
  Take(1, EventKind::kRepError);
  // The peer may have received the reply, and may be sending.
  EXPECT_EQ(manager(1).state(handle(1)), State::kTimewait);
}

//= IBTA 12.9.6
TEST_F(TimersTest, GivingUpAReplyEndsThePeersHalf) {
  ReachRepReceived();
  ASSERT_EQ(manager(0).SendRtu(handle(0), {}, sink(0)), 0);
  sink(0).mads.clear();  // lost
  while (sink(1).events.empty()) {
    now_ = manager(1).NextDeadline();
    manager(1).OnTimer(now_, sink(1));
  }
  Take(1, EventKind::kRepError);
  while (sink(1).mads.size() > 1) sink(1).mads.pop_front();
  EXPECT_EQ(Deliver(1), RxVerdict::kAccept);
  EXPECT_EQ(Take(0, EventKind::kRejReceived).event.reject_reason,
            wire::kRejTimeout);
  EXPECT_EQ(manager(0).state(handle(0)), State::kTimewait);
}

TEST_F(TimersTest, ADisconnectThatIsNotAnsweredEndsInTimewait) {
  ReachEstablished();
  ASSERT_EQ(manager(0).Disconnect(handle(0), {}, now_, sink(0)), 0);
  const Time start = now_;
  Exhaust(0);
  EXPECT_EQ(now_, start + AnswerTime() * (1 + kRetries));
  Take(0, EventKind::kDreqError);
  EXPECT_EQ(manager(0).state(handle(0)), State::kTimewait);
  Exhaust(0);
  Take(0, EventKind::kTimewaitExit);
}

//= IBTA 12.9.8.2
TEST_F(TimersTest, AnMraLengthensTheWait) {
  ReachReqReceived();
  constexpr uint8_t kService = 14;
  EXPECT_EQ(Give(0, Mra(1, wire::kCmMessageReq, kService)), RxVerdict::kAccept);
  Take(0, EventKind::kMraReceived);
  const Duration wait = Duration::Nanoseconds((4096ll << kService) +
                                              (4096ll << (kLifeTimeCode + 1)));
  EXPECT_EQ(manager(0).NextDeadline(), now_ + wait);
  // Afterwards the request is repeated for the remaining tries.
  const Time start = now_;
  Exhaust(0);
  EXPECT_EQ(now_, start + wait * (1 + kRetries));
  Take(0, EventKind::kReqError);
}

TEST_F(TimersTest, TheTimeThatAPeerAsksForIsBounded) {
  const Duration longest = Duration::Nanoseconds(4096ll << kLongestGrantCode);
  ConnectParams params = Request();
  params.local_response_timeout_code = 31;
  params.max_cm_retries = 0;
  Listen();
  Connect(0, params);
  Pass(0);
  Take(1, EventKind::kReqReceived);
  EXPECT_EQ(Give(0, Mra(1, wire::kCmMessageReq, 31)), RxVerdict::kAccept);
  EXPECT_EQ(Take(0, EventKind::kMraReceived).event.service_timeout_code, 31);
  EXPECT_LE(manager(0).NextDeadline() - now_, longest * 2);
  ASSERT_EQ(manager(1).Accept(handle(1), Reply(), now_, sink(1)), 0);
  EXPECT_EQ(manager(1).NextDeadline(), now_ + longest);
}

TEST_F(TimersTest, NothingIsDueWithoutAnythingToWaitFor) {
  EXPECT_TRUE(manager(0).NextDeadline().IsInfinite());
  ReachEstablished();
  EXPECT_TRUE(manager(0).NextDeadline().IsInfinite());
  EXPECT_TRUE(manager(1).NextDeadline().IsInfinite());
  manager(0).OnTimer(Time::FromNs(INT64_MAX - 1), sink(0));
  ExpectQuiet(0);
}

}  // namespace
}  // namespace urnic::cm
