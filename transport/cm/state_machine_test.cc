// One connection alone, as a value: each step is taken by a machine that has
// never seen it before.

#include "transport/cm/state_machine.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/support/cm_sink.h"

namespace urnic::cm {
namespace {

using ::urnic::testing::CmSink;
using ::urnic::testing::SentMad;

constexpr uint32_t kOurs = 0x1111;
constexpr uint32_t kTheirs = 0x2222;
constexpr Time kNow = Time::FromNs(1'000'000);

class StateMachineTest : public ::testing::Test {
 protected:
  // Calls `f(machine, connection, step)` on a copy, with a new machine.
  template <typename F>
  auto Take(Connection& c, const F& f) {
    Config config;
    config.ca_guid = 0xca;
    const auto machine = std::make_unique<StateMachine>(config);
    Connection copy = c;
    Step step{
        .now = kNow, .sink = sink_, .handle = Handle{7}, .answered = true};
    const auto result = f(*machine, copy, step);
    StateMachine::CheckInvariants(copy);
    c = copy;
    return result;
  }
  template <typename Message>
  Message Sent() {
    EXPECT_EQ(sink_.mads.size(), 1u);
    const Message message = sink_.mads.front().As<Message>();
    sink_.mads.clear();
    return message;
  }
  void ExpectEvent(EventKind kind) {
    ASSERT_EQ(sink_.events.size(), 1u);
    EXPECT_EQ(sink_.events.front().event.kind, kind);
    EXPECT_EQ(sink_.events.front().event.handle, Handle{7});
    sink_.events.clear();
  }

  // active_ requests, passive_ accepts.
  void Establish() {
    active_.local_comm_id = kOurs;
    passive_.local_comm_id = kTheirs;
    ConnectParams request;
    request.service_id = 5;
    request.mad_path.remote = wire::Gid::FromIpv4(2);
    request.qpn = Qpn{0x100};
    Take(active_, [&](const StateMachine& m, Connection& c, Step& step) {
      m.Connect(c, request, 77, step);
      return 0;
    });
    const auto req = Sent<wire::CmReq>();
    net::PathQuery from;
    from.remote = wire::Gid::FromIpv4(1);
    StateMachine::Begin(passive_, req, Service::kRc, from);
    AcceptParams reply;
    reply.qpn = Qpn{0x200};
    ASSERT_EQ(
        Take(passive_, [&](const StateMachine& m, Connection& c,
                           Step& step) { return m.Accept(c, reply, step); }),
        0);
    const auto rep = Sent<wire::CmRep>();
    ASSERT_EQ(Take(active_, [&](const StateMachine& m, Connection& c,
                                Step& step) { return m.OnRep(c, rep, step); }),
              RxVerdict::kAccept);
    ExpectEvent(EventKind::kRepReceived);
    ASSERT_EQ(Take(active_, [&](const StateMachine& m, Connection& c,
                                Step& step) { return m.SendRtu(c, {}, step); }),
              0);
    const auto rtu = Sent<wire::CmRtu>();
    ASSERT_EQ(Take(passive_, [&](const StateMachine& m, Connection& c,
                                 Step& step) { return m.OnRtu(c, rtu, step); }),
              RxVerdict::kAccept);
    ExpectEvent(EventKind::kRtuReceived);
  }

  CmSink sink_;
  Connection active_;
  Connection passive_;
};

TEST_F(StateMachineTest, EachStepContinuesFromAValue) {
  Establish();
  EXPECT_EQ(active_.state, State::kEstablished);
  EXPECT_EQ(passive_.state, State::kEstablished);
  EXPECT_EQ(active_.remote_comm_id, kTheirs);
  EXPECT_EQ(passive_.remote_comm_id, kOurs);
  EXPECT_EQ(active_.remote_qpn.value, 0x200u);
  EXPECT_EQ(passive_.remote_qpn.value, 0x100u);
  // The end.
  ASSERT_EQ(
      Take(passive_, [&](const StateMachine& m, Connection& c,
                         Step& step) { return m.Disconnect(c, {}, step); }),
      0);
  const auto dreq = Sent<wire::CmDreq>();
  ASSERT_EQ(Take(active_, [&](const StateMachine& m, Connection& c,
                              Step& step) { return m.OnDreq(c, dreq, step); }),
            RxVerdict::kAccept);
  ExpectEvent(EventKind::kDreqReceived);
  ASSERT_EQ(Take(active_, [&](const StateMachine& m, Connection& c,
                              Step& step) { return m.SendDrep(c, {}, step); }),
            0);
  const auto drep = Sent<wire::CmDrep>();
  ASSERT_EQ(Take(passive_, [&](const StateMachine& m, Connection& c,
                               Step& step) { return m.OnDrep(c, drep, step); }),
            RxVerdict::kAccept);
  ExpectEvent(EventKind::kDrepReceived);
  for (Connection* c : {&active_, &passive_}) {
    EXPECT_EQ(c->state, State::kTimewait);
    Take(*c, [&](const StateMachine& m, Connection& copy, Step& step) {
      step.now = copy.deadline;
      m.OnDeadline(copy, step);
      return 0;
    });
    ExpectEvent(EventKind::kTimewaitExit);
    EXPECT_EQ(c->state, State::kIdle);
    EXPECT_TRUE(c->deadline.IsInfinite());
  }
}

// What a connection is found by follows from its state.
TEST_F(StateMachineTest, WhatIsHeldFollowsFromTheState) {
  EXPECT_FALSE(KnowsPeersId(active_) || HoldsLocalQp(active_));
  Establish();
  for (const Connection* c : {&active_, &passive_}) {
    EXPECT_TRUE(KnowsPeersId(*c) && HoldsRemoteQp(*c) && HoldsLocalQp(*c));
    EXPECT_FALSE(IsHalfOpen(c->state));
  }
}

}  // namespace
}  // namespace urnic::cm
