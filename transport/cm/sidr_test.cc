// Resolution of a service id to a datagram QP.

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/support/cm_pair.h"

namespace urnic::cm {
namespace {

using ::urnic::testing::SentMad;

class SidrTest : public ::urnic::testing::CmPair {
 protected:
  void Ask() {
    SidrRequestParams params;
    params.service_id = kService;
    params.mad_path = PathFrom(0);
    params.pkey = 0x8001;
    params.response_timeout_code = kTimeoutCode;
    params.packet_life_time_code = kLifeTimeCode;
    params.max_cm_retries = kRetries;
    params.private_data = data_;
    ASSERT_EQ(
        manager(0).SidrRequest(params, kUser, now_, sink(0), node(0).handle),
        0);
  }
  const std::vector<uint8_t> data_ =
      std::vector<uint8_t>(wire::kSidrReqPrivateBytes, 0x11);
};

TEST_F(SidrTest, TheAnswerNamesQpAndQkey) {
  Listen();
  Ask();
  EXPECT_EQ(Deliver(0), RxVerdict::kAccept);
  const auto asked = Take(1, EventKind::kSidrReqReceived);
  EXPECT_EQ(asked.event.user, kListenerUser);
  EXPECT_EQ(asked.event.listener, node(1).listener);
  EXPECT_EQ(asked.event.service_id, kService);
  EXPECT_EQ(asked.event.pkey, 0x8001);
  EXPECT_EQ(asked.from.remote, GidOf(0));
  EXPECT_EQ(asked.private_data, data_);
  SidrReplyParams reply;
  reply.qpn = Qpn{0x321};
  reply.qkey = 0x01234567;
  const std::vector<uint8_t> data(wire::kSidrRepPrivateBytes, 0x22);
  const std::vector<uint8_t> info(wire::kSidrRepInfoBytes, 0x33);
  reply.private_data = data;
  reply.info = info;
  ASSERT_EQ(manager(1).SidrReply(handle(1), reply, sink(1)), 0);
  EXPECT_EQ(manager(1).state(handle(1)), State::kIdle);
  EXPECT_EQ(Deliver(1), RxVerdict::kAccept);
  const auto seen = Take(0, EventKind::kSidrRepReceived);
  EXPECT_EQ(seen.event.user, kUser);
  EXPECT_EQ(seen.event.sidr_status, wire::kSidrSuccess);
  EXPECT_EQ(seen.event.remote_qpn.value, 0x321u);
  EXPECT_EQ(seen.event.qkey, 0x01234567u);
  EXPECT_EQ(seen.event.service_id, kService);
  EXPECT_EQ(seen.private_data, data);
  EXPECT_EQ(seen.ari, info);
  EXPECT_TRUE(manager(0).NextDeadline().IsInfinite());
}

//= IBTA 12.11.2.1
TEST_F(SidrTest, ARequestWithoutAListenerIsRefused) {
  Ask();
  EXPECT_EQ(Deliver(0), RxVerdict::kCmNoListener);
  EXPECT_EQ(Deliver(1), RxVerdict::kAccept);
  // The status that Linux 6.12 was seen to answer.
  EXPECT_EQ(Take(0, EventKind::kSidrRepReceived).event.sidr_status, 1);
  EXPECT_EQ(wire::kSidrUnsupported, 1);
}

TEST_F(SidrTest, ARepeatedRequestWaitsForTheAnswer) {
  Listen();
  Ask();
  const SentMad req = sink(0).mads.front();
  Pass(0);
  Take(1, EventKind::kSidrReqReceived);
  EXPECT_EQ(Give(1, req), RxVerdict::kCmDuplicate);
  ExpectQuiet(1);
}

TEST_F(SidrTest, ASecondAnswerIsIgnored) {
  Listen();
  Ask();
  Pass(0);
  Take(1, EventKind::kSidrReqReceived);
  ASSERT_EQ(manager(1).SidrReply(handle(1), SidrReplyParams(), sink(1)), 0);
  const SentMad rep = sink(1).mads.front();
  Pass(1);
  Take(0, EventKind::kSidrRepReceived);
  EXPECT_EQ(Give(0, rep), RxVerdict::kCmUnexpected);
  ExpectQuiet(0);
  ASSERT_EQ(manager(0).Destroy(handle(0), now_, sink(0)), 0);
  EXPECT_EQ(Give(0, rep), RxVerdict::kCmNoConnection);
}

TEST_F(SidrTest, AnUnansweredRequestIsRepeatedAndFails) {
  Ask();
  const Time start = now_;
  while (Wait()) {
  }
  EXPECT_EQ(now_, start + AnswerTime() * (1 + kRetries));
  EXPECT_EQ(sink(0).mads.size(), 1u + kRetries);
  Take(0, EventKind::kSidrReqError);
}

//= IBTA 12.11.2.1
TEST_F(SidrTest, DestroyingAReceivedRequestRefusesIt) {
  Listen();
  Ask();
  Pass(0);
  Take(1, EventKind::kSidrReqReceived);
  ASSERT_EQ(manager(1).Destroy(handle(1), now_, sink(1)), 0);
  EXPECT_EQ(manager(1).in_use(), 1u);
  Pass(1);
  EXPECT_EQ(Take(0, EventKind::kSidrRepReceived).event.sidr_status,
            wire::kSidrReject);
  EXPECT_EQ(wire::kSidrReject, 2);
}

TEST_F(SidrTest, DestroyingASentRequestIsSilent) {
  Ask();
  sink(0).mads.clear();
  ASSERT_EQ(manager(0).Destroy(handle(0), now_, sink(0)), 0);
  ExpectQuiet(0);
  EXPECT_EQ(manager(0).in_use(), 0u);
  EXPECT_TRUE(manager(0).NextDeadline().IsInfinite());
}

}  // namespace
}  // namespace urnic::cm
