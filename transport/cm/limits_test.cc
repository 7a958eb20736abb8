// What does not fit, is in the wrong state, or is not a message at all.

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <set>

#include "tests/support/cm_pair.h"

namespace urnic::cm {
namespace {

using ::urnic::testing::CmSink;

using ::urnic::testing::MadBytes;

class LimitsTest : public ::urnic::testing::CmPair {
 protected:
  int ConnectError(const ConnectParams& params) {
    Handle handle;
    const int error = manager(0).Connect(params, 0, now_, sink(0), handle);
    if (error != 0) {
      EXPECT_TRUE(sink(0).mads.empty());
      EXPECT_EQ(manager(0).in_use(), 0u);
    }
    return error;
  }
};

TEST_F(LimitsTest, ArgumentsOutOfRangeAreRefused) {
  const std::vector<uint8_t> data(wire::kReqPrivateBytes + 1);
  // Not inlined: fourteen sets of parameters would be a large frame.
  const std::function<int(std::function<void(ConnectParams&)>)> with =
      [&](const std::function<void(ConnectParams&)>& change) {
        ConnectParams p = Request();
        change(p);
        return ConnectError(p);
      };
  EXPECT_EQ(with([&](auto& p) { p.private_data = data; }), EINVAL);
  EXPECT_EQ(with([](auto& p) { p.qpn = Qpn{1u << 24}; }), EINVAL);
  EXPECT_EQ(with([](auto& p) { p.ece.vendor_id = 1u << 24; }), EINVAL);
  EXPECT_EQ(with([](auto& p) { p.retry_count = 8; }), EINVAL);
  EXPECT_EQ(with([](auto& p) { p.rnr_retry_count = 8; }), EINVAL);
  EXPECT_EQ(with([](auto& p) { p.max_cm_retries = 16; }), EINVAL);
  EXPECT_EQ(with([](auto& p) { p.mtu_code = 0; }), EINVAL);
  EXPECT_EQ(with([](auto& p) { p.mtu_code = 6; }), EINVAL);
  EXPECT_EQ(with([](auto& p) { p.path.flow_label = 1u << 20; }), EINVAL);
  EXPECT_EQ(with([](auto& p) { p.path.service_level = 16; }), EINVAL);
  EXPECT_EQ(with([](auto& p) { p.packet_rate = 64; }), EINVAL);
  EXPECT_EQ(with([](auto& p) { p.remote_response_timeout_code = 32; }), EINVAL);
  EXPECT_EQ(with([](auto& p) { p.local_response_timeout_code = 32; }), EINVAL);
  EXPECT_EQ(with([](auto& p) { p.packet_life_time_code = 32; }), EINVAL);
  EXPECT_EQ(with([](auto& p) { p.service = static_cast<Service>(2); }), EINVAL);
  EXPECT_EQ(with([](auto&) {}), 0);
}

TEST_F(LimitsTest, ArgumentsOfAnswersOutOfRangeAreRefused) {
  ReachReqReceived();
  const std::vector<uint8_t> data(256);
  AcceptParams reply = Reply();
  reply.private_data = data;
  EXPECT_EQ(manager(1).Accept(handle(1), reply, now_, sink(1)), EINVAL);
  RejectParams reject;
  reject.ari = data;
  EXPECT_EQ(manager(1).Reject(handle(1), reject, now_, sink(1)), EINVAL);
  EXPECT_EQ(manager(1).PrepareMra(handle(1), 32), EINVAL);
  ExpectQuiet(1);
  EXPECT_EQ(manager(1).state(handle(1)), State::kReqReceived);
}

TEST_F(LimitsTest, CallsInTheWrongStateChangeNothing) {
  ReachReqReceived();
  const Handle h = handle(1);
  ConnectionManager& m = manager(1);
  EXPECT_EQ(m.SendRtu(h, {}, sink(1)), EINVAL);
  EXPECT_EQ(m.Disconnect(h, {}, now_, sink(1)), EINVAL);
  EXPECT_EQ(m.SendDrep(h, {}, now_, sink(1)), EINVAL);
  EXPECT_EQ(m.EstablishByTraffic(h, sink(1)), EINVAL);
  EXPECT_EQ(m.SidrReply(h, SidrReplyParams(), sink(1)), EINVAL);
  EXPECT_EQ(m.Unlisten(h), EINVAL);
  const Handle listener = node(1).listener;
  EXPECT_EQ(m.Accept(listener, Reply(), now_, sink(1)), EINVAL);
  EXPECT_EQ(m.Reject(listener, RejectParams(), now_, sink(1)), EINVAL);
  EXPECT_EQ(m.PrepareMra(listener, 3), EINVAL);
  QpAttributes qp;
  EXPECT_EQ(m.GetQpAttributes(listener, qp), EINVAL);
  ExpectQuiet(1);
  EXPECT_EQ(m.state(h), State::kReqReceived);
}

TEST_F(LimitsTest, CommunicationIdsAreFromTheLeasedRange) {
  LocalLessor lessor;
  lessor.Offer(NumberSpace::kCommId, {0x4000, 16});
  Config config;
  config.max_connections = 64;
  config.first_communication_id = 0x12345678;
  config.lessor = &lessor;
  {
    ConnectionManager m(config);
    CmSink out;
    EXPECT_EQ(lessor.Lease(NumberSpace::kCommId).count, 0u);
    // Half as many connections as ids, each with its own id, several times.
    for (int round = 0; round < 5; ++round) {
      std::vector<Handle> handles(8);
      std::set<uint32_t> ids;
      for (Handle& h : handles) {
        ASSERT_EQ(m.Connect(Request(0), kUser, now_, out, h), 0);
        ids.insert(m.local_comm_id(h));
      }
      EXPECT_EQ(ids.size(), 8u);
      EXPECT_GE(*ids.begin(), 0x4000u);
      EXPECT_LT(*ids.rbegin(), 0x4010u);
      Handle more;
      EXPECT_EQ(m.Connect(Request(0), kUser, now_, out, more), ENOMEM);
      for (const Handle h : handles) EXPECT_EQ(m.Destroy(h, now_, out), 0);
      m.CheckInvariants();
    }
  }
  EXPECT_EQ(lessor.Lease(NumberSpace::kCommId), (NumberRange{0x4000, 16}));
  // Without ids, nothing can be connected.
  ConnectionManager none(config);
  Handle h;
  EXPECT_EQ(none.Connect(Request(0), kUser, now_, sink(0), h), ENOMEM);
  EXPECT_EQ(none.Listen(kService, 0, kUser, h), ENOMEM);
}

TEST_F(LimitsTest, ADestroyedHandleIsRecognized) {
  ReachReqReceived();
  const Handle old = handle(1);
  ASSERT_EQ(manager(1).Destroy(old, now_, sink(1)), 0);
  // Its place is reused.
  Handle other;
  ASSERT_EQ(manager(1).Listen(1, 0, 0, other), 0);
  for (const Handle h : {old, Handle{}, Handle{UINT32_MAX}}) {
    ConnectionManager& m = manager(1);
    QpAttributes qp;
    EXPECT_FALSE(m.Exists(h));
    EXPECT_EQ(m.Accept(h, Reply(), now_, sink(1)), EBADF);
    EXPECT_EQ(m.Reject(h, RejectParams(), now_, sink(1)), EBADF);
    EXPECT_EQ(m.SendRtu(h, {}, sink(1)), EBADF);
    EXPECT_EQ(m.PrepareMra(h, 1), EBADF);
    EXPECT_EQ(m.Disconnect(h, {}, now_, sink(1)), EBADF);
    EXPECT_EQ(m.SendDrep(h, {}, now_, sink(1)), EBADF);
    EXPECT_EQ(m.EstablishByTraffic(h, sink(1)), EBADF);
    EXPECT_EQ(m.SidrReply(h, SidrReplyParams(), sink(1)), EBADF);
    EXPECT_EQ(m.Destroy(h, now_, sink(1)), EBADF);
    EXPECT_EQ(m.SetUser(h, 1), EBADF);
    EXPECT_EQ(m.GetQpAttributes(h, qp), EBADF);
    EXPECT_EQ(m.local_comm_id(h), 0u);
    EXPECT_EQ(m.state(h), State::kIdle);
  }
}

TEST_F(LimitsTest, OneListenerPerService) {
  Handle first, second;
  ASSERT_EQ(manager(1).Listen(kService, 0, 0, first), 0);
  EXPECT_EQ(manager(1).Listen(kService, 0, 0, second), EADDRINUSE);
  EXPECT_EQ(manager(1).Listen(kService, UINT64_MAX, 0, second), EADDRINUSE);
  EXPECT_EQ(manager(1).Listen(kService, 0xff00, 0, second), 0);
  EXPECT_EQ(manager(1).Listen(kService, 0xff00, 0, second), EADDRINUSE);
  ASSERT_EQ(manager(1).Destroy(first, now_, sink(1)), 0);
  EXPECT_EQ(manager(1).Listen(kService, 0, 0, first), 0);
}

TEST_F(LimitsTest, AFullTableRejects) {
  Restart(1, 2, 32);
  Listen();
  for (uint32_t i = 0; i < 2; ++i) {
    ConnectParams params = Request();
    params.qpn = Qpn{i};
    Connect(0, params);
  }
  EXPECT_EQ(Deliver(0), RxVerdict::kAccept);
  Take(1, EventKind::kReqReceived);
  ASSERT_EQ(manager(1).Accept(handle(1), Reply(), now_, sink(1)), 0);
  sink(1).mads.clear();
  ASSERT_EQ(manager(1).EstablishByTraffic(handle(1), sink(1)), 0);
  Take(1, EventKind::kUserEstablished);
  EXPECT_EQ(Deliver(0), RxVerdict::kCmNoRoom);
  ASSERT_EQ(sink(1).mads.size(), 1u);
  EXPECT_EQ(sink(1).mads.front().As<wire::CmRej>().reason.value(),
            wire::kRejNoResources);
  Handle other;
  EXPECT_EQ(manager(1).Connect(Request(1), 0, now_, sink(1), other), ENOMEM);
  EXPECT_EQ(manager(1).Listen(5, 0, 0, other), ENOMEM);
  // There is room again when one is over.
  ASSERT_EQ(manager(1).Unlisten(node(1).listener), 0);
  EXPECT_EQ(manager(1).Listen(5, 0, 0, other), 0);
}

//= IBTA 13.4.2, 13.4.3
TEST_F(LimitsTest, WhatIsNotACmMessageIsRefused) {
  Listen();
  Connect();
  const MadBytes good = sink(0).mads.front().bytes;
  const auto give = [&](const MadBytes& bytes, size_t size) {
    return manager(1).OnMad({bytes.data(), size}, PathFrom(1), now_, sink(1));
  };
  EXPECT_EQ(give(good, 255), RxVerdict::kBadMad);
  EXPECT_EQ(give(good, 0), RxVerdict::kBadMad);
  for (size_t at = 0; at < 4; ++at) {  // version, class, version, method
    MadBytes bad = good;
    bad[at] ^= 0x40;
    EXPECT_EQ(give(bad, bad.size()), RxVerdict::kBadMad) << at;
  }
  MadBytes bad = good;
  bad[17] = 0x1b;
  EXPECT_EQ(give(bad, bad.size()), RxVerdict::kUnknownMadAttribute);
  bad = good;
  std::fill(bad.begin() + 24, bad.begin() + 28, uint8_t{0});
  EXPECT_EQ(give(bad, bad.size()), RxVerdict::kBadMad);
  ExpectQuiet(1);
  EXPECT_EQ(manager(1).in_use(), 1u);
  EXPECT_EQ(give(good, good.size()), RxVerdict::kAccept);
}

TEST_F(LimitsTest, TheFirstCommunicationIdIsTheCallersAndNoneIsZero) {
  for (const uint32_t first : {0x12345678u, 1u, 0xffffffffu, 0u}) {
    Config config;
    config.first_communication_id = first;
    config.max_connections = 4;
    ConnectionManager m(config);
    Handle handle;
    for (int i = 0; i < 1000; ++i) {
      ASSERT_EQ(m.Connect(Request(), 0, now_, sink(0), handle), 0);
      if (i == 0 && first != 0) {
        EXPECT_EQ(m.local_comm_id(handle), first);
      }
      EXPECT_NE(m.local_comm_id(handle), 0u);
      ASSERT_EQ(m.Destroy(handle, now_, sink(0)), 0);
    }
    EXPECT_EQ(m.in_use(), 0u);
  }
}

TEST_F(LimitsTest, ACommunicationIdRevealsNothingAboutTheNext) {
  std::set<uint32_t> ids;
  std::set<uint32_t> steps;
  Config config;
  config.first_communication_id = 0x1234;
  config.number_key = {{1, 2}};
  ConnectionManager m(config);
  uint32_t last = 0;
  for (int i = 0; i < 1000; ++i) {
    Handle handle;
    ASSERT_EQ(m.Connect(Request(), 0, now_, sink(0), handle), 0);
    const uint32_t id = m.local_comm_id(handle);
    EXPECT_TRUE(ids.insert(id).second);
    steps.insert(id - last);
    last = id;
    if (i % 3 != 0) continue;
    ASSERT_EQ(m.Destroy(handle, now_, sink(0)), 0);
  }
  // A counter would give one step only. Another key gives other ids.
  EXPECT_GE(steps.size(), 999u);
  config.number_key = {{1, 3}};
  ConnectionManager other(config);
  int same = 0;
  for (int i = 0; i < 1000; ++i) {
    Handle handle;
    ASSERT_EQ(other.Connect(Request(), 0, now_, sink(0), handle), 0);
    same += ids.contains(other.local_comm_id(handle)) ? 1 : 0;
  }
  EXPECT_EQ(same, 1);  // the first, which was asked for
}

TEST_F(LimitsTest, EventsCarryTheUserValueThatWasSet) {
  ReachReqReceived();
  ASSERT_EQ(manager(1).SetUser(handle(1), 123), 0);
  ASSERT_EQ(manager(1).Accept(handle(1), Reply(), now_, sink(1)), 0);
  Pass(1);
  Take(0, EventKind::kRepReceived);
  ASSERT_EQ(manager(0).SendRtu(handle(0), {}, sink(0)), 0);
  Pass(0);
  EXPECT_EQ(Take(1, EventKind::kRtuReceived).event.user, 123u);
}

}  // namespace
}  // namespace urnic::cm
