// Captured dialogues of two Linux kernels. Our manager replaces each side in
// turn, receives what the other side sent, and must send the same.

#include <gtest/gtest.h>

#include <memory>

#include "tests/support/cm_capture.h"
#include "tests/support/cm_sink.h"
#include "transport/cm/connection_manager.h"

namespace urnic::cm {
namespace {

using ::urnic::testing::CapturedMad;
using ::urnic::testing::CmSink;
using ::urnic::testing::ReadCmCapture;

constexpr Time kNow = Time::FromNs(1000);
constexpr uint32_t kLinuxPrefix = 2;
// The XOR of the second communication id and the first, which a listener has.
uint32_t SecondPlace() {
  Config config;
  config.first_communication_id = 1;
  config.max_connections = 16;
  ConnectionManager manager(config);
  Handle listener;
  EXPECT_EQ(manager.Listen(1, 0, 0, listener), 0);
  CmSink sink;
  Handle second;
  EXPECT_EQ(manager.Connect({}, 0, kNow, sink, second), 0);
  return manager.local_comm_id(second) ^ config.first_communication_id;
}

// A side of a capture, with the communication id of its first message.
struct Side {
  Side(uint64_t ca_guid, uint32_t comm_id)
      : manager([&] {
          Config config;
          config.ca_guid = ca_guid;
          config.first_communication_id = comm_id;
          config.transaction_prefix = kLinuxPrefix;
          config.max_connections = 16;
          return config;
        }()) {}

  RxVerdict Hear(const CapturedMad& mad) {
    net::PathQuery from;
    from.local = mad.destination;
    from.remote = mad.source;
    const RxVerdict verdict = manager.OnMad(mad.bytes, from, kNow, sink);
    manager.CheckInvariants();
    return verdict;
  }
  // Our next message is this one.
  void ExpectSaid(const CapturedMad& mad) {
    ASSERT_FALSE(sink.mads.empty());
    EXPECT_EQ(sink.mads.front().bytes, mad.bytes);
    EXPECT_EQ(sink.mads.front().to.remote, mad.destination);
    sink.mads.pop_front();
  }
  void ExpectEvent(EventKind kind) {
    ASSERT_FALSE(sink.events.empty());
    EXPECT_EQ(sink.events.front().event.kind, kind);
    handle = sink.events.front().event.handle;
    sink.events.pop_front();
  }

  ConnectionManager manager;
  CmSink sink;
  Handle handle;
};

ConnectParams ParamsOf(const CapturedMad& mad) {
  const auto& req = mad.As<wire::CmReq>();
  ConnectParams p;
  p.service_id = req.service_id.value();
  p.mad_path.local = mad.source;
  p.mad_path.remote = mad.destination;
  p.path.local = mad.source;
  p.path.remote = mad.destination;
  p.path.pkey = req.pkey.value();
  p.path.flow_label = req.primary.flow_label();
  p.path.traffic_class = req.primary.traffic_class;
  p.path.hop_limit = req.primary.hop_limit;
  p.mtu_code = req.mtu_code();
  p.qpn = req.local_qpn();
  p.starting_psn = req.starting_psn();
  p.responder_resources = req.responder_resources();
  p.initiator_depth = req.initiator_depth();
  p.retry_count = req.retry_count();
  p.rnr_retry_count = req.rnr_retry_count();
  p.private_data = req.private_data;
  return p;
}

AcceptParams ParamsOf(const wire::CmRep& rep) {
  AcceptParams p;
  p.qpn = rep.local_qpn();
  p.starting_psn = rep.starting_psn();
  p.responder_resources = rep.responder_resources;
  p.initiator_depth = rep.initiator_depth;
  p.rnr_retry_count = rep.rnr_retry_count();
  p.private_data = rep.private_data;
  return p;
}

// REQ, REP, RTU, then DREQ and DREP by either side.
class LinuxTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    mads_ = ReadCmCapture(GetParam());
    ASSERT_EQ(mads_.size(), 5u);
    disconnect_by_active_ = mads_[3].source == mads_[0].source;
  }
  const wire::CmReq& req() const { return mads_[0].As<wire::CmReq>(); }
  const wire::CmRep& rep() const { return mads_[1].As<wire::CmRep>(); }

  void ExpectDisconnect(Side& side, bool ours) {
    if (ours) {
      ASSERT_EQ(side.manager.Disconnect(side.handle, {}, kNow, side.sink), 0);
      side.ExpectSaid(mads_[3]);
      EXPECT_EQ(side.Hear(mads_[4]), RxVerdict::kAccept);
      side.ExpectEvent(EventKind::kDrepReceived);
    } else {
      EXPECT_EQ(side.Hear(mads_[3]), RxVerdict::kAccept);
      side.ExpectEvent(EventKind::kDreqReceived);
      ASSERT_EQ(side.manager.SendDrep(side.handle, {}, kNow, side.sink), 0);
      side.ExpectSaid(mads_[4]);
    }
    EXPECT_EQ(side.manager.state(side.handle), State::kTimewait);
    EXPECT_TRUE(side.sink.mads.empty());
  }

  std::vector<CapturedMad> mads_;
  bool disconnect_by_active_ = false;
};

//= IBTA 12.6.9, 12.6.10, 12.6.11, 13.4.3, 13.4.4, 13.4.5, 16.7.1
TEST_P(LinuxTest, WeSayWhatTheActiveSideSaid) {
  Side side(req().local_ca_guid.value(), req().local_comm_id.value());
  ASSERT_EQ(
      side.manager.Connect(ParamsOf(mads_[0]), 1, kNow, side.sink, side.handle),
      0);
  side.ExpectSaid(mads_[0]);
  EXPECT_EQ(side.Hear(mads_[1]), RxVerdict::kAccept);
  side.ExpectEvent(EventKind::kRepReceived);
  QpAttributes qp;
  ASSERT_EQ(side.manager.GetQpAttributes(side.handle, qp), 0);
  EXPECT_EQ(qp.remote_qpn, rep().local_qpn());
  EXPECT_EQ(qp.send_psn, rep().starting_psn());
  EXPECT_EQ(qp.receive_psn, req().starting_psn());
  ASSERT_EQ(side.manager.SendRtu(side.handle, {}, side.sink), 0);
  side.ExpectSaid(mads_[2]);
  ExpectDisconnect(side, disconnect_by_active_);
}

//= IBTA 12.6.8, 12.6.10, 12.6.11
TEST_P(LinuxTest, WeSayWhatThePassiveSideSaid) {
  Side side(rep().local_ca_guid.value(),
            rep().local_comm_id.value() ^ SecondPlace());
  Handle listener;
  ASSERT_EQ(side.manager.Listen(req().service_id.value(), 0, 7, listener), 0);
  EXPECT_EQ(side.Hear(mads_[0]), RxVerdict::kAccept);
  side.ExpectEvent(EventKind::kReqReceived);
  ASSERT_EQ(side.manager.Accept(side.handle, ParamsOf(rep()), kNow, side.sink),
            0);
  side.ExpectSaid(mads_[1]);
  EXPECT_EQ(side.Hear(mads_[2]), RxVerdict::kAccept);
  side.ExpectEvent(EventKind::kRtuReceived);
  QpAttributes qp;
  ASSERT_EQ(side.manager.GetQpAttributes(side.handle, qp), 0);
  EXPECT_EQ(qp.remote_qpn, req().local_qpn());
  EXPECT_EQ(qp.send_psn, req().starting_psn());
  EXPECT_EQ(qp.receive_psn, rep().starting_psn());
  EXPECT_EQ(qp.ack_timeout_code, req().primary.ack_timeout_code());
  EXPECT_EQ(qp.path.remote, mads_[0].source);
  ExpectDisconnect(side, !disconnect_by_active_);
}

INSTANTIATE_TEST_SUITE_P(Captures, LinuxTest,
                         ::testing::Values("rxe_cm_rdma_client", "rxe_cm_rping",
                                           "rxe_cm_rping_ipv6",
                                           "rxe_cm_ucmatose"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

//= IBTA 12.6.7, 12.6.7.2
TEST(LinuxRejectTest, ARequestWithoutAListenerIsRejected) {
  const auto mads = ReadCmCapture("rxe_cm_reject_nolistener");
  ASSERT_EQ(mads.size(), 2u);
  const auto side = std::make_unique<Side>(1, 1);
  Side& passive = *side;
  EXPECT_EQ(passive.Hear(mads[0]), RxVerdict::kCmNoListener);
  passive.ExpectSaid(mads[1]);

  const auto& req = mads[0].As<wire::CmReq>();
  Side active(req.local_ca_guid.value(), req.local_comm_id.value());
  ASSERT_EQ(active.manager.Connect(ParamsOf(mads[0]), 1, kNow, active.sink,
                                   active.handle),
            0);
  active.ExpectSaid(mads[0]);
  EXPECT_EQ(active.Hear(mads[1]), RxVerdict::kAccept);
  ASSERT_FALSE(active.sink.events.empty());
  EXPECT_EQ(active.sink.events.front().event.reject_reason,
            wire::kRejInvalidServiceId);
  active.ExpectEvent(EventKind::kRejReceived);
  EXPECT_EQ(active.manager.state(active.handle), State::kIdle);
}

//= IBTA 12.11.1, 12.11.2
TEST(LinuxSidrTest, BothSidesOfAResolution) {
  const auto mads = ReadCmCapture("rxe_cm_udaddy_sidr");
  ASSERT_EQ(mads.size(), 2u);
  const auto& req = mads[0].As<wire::CmSidrReq>();
  const auto& rep = mads[1].As<wire::CmSidrRep>();
  Side active(1, req.request_id.value());
  SidrRequestParams params;
  params.service_id = req.service_id.value();
  params.mad_path.remote = mads[0].destination;
  params.pkey = req.pkey.value();
  params.private_data = req.private_data;
  ASSERT_EQ(
      active.manager.SidrRequest(params, 1, kNow, active.sink, active.handle),
      0);
  active.ExpectSaid(mads[0]);
  EXPECT_EQ(active.Hear(mads[1]), RxVerdict::kAccept);
  ASSERT_FALSE(active.sink.events.empty());
  EXPECT_EQ(active.sink.events.front().event.remote_qpn, rep.qpn());
  EXPECT_EQ(active.sink.events.front().event.qkey, 0x01234567u);
  active.ExpectEvent(EventKind::kSidrRepReceived);

  const auto side = std::make_unique<Side>(2, 1);
  Side& passive = *side;
  Handle listener;
  ASSERT_EQ(passive.manager.Listen(req.service_id.value(), 0, 7, listener), 0);
  EXPECT_EQ(passive.Hear(mads[0]), RxVerdict::kAccept);
  passive.ExpectEvent(EventKind::kSidrReqReceived);
  SidrReplyParams reply;
  reply.qpn = rep.qpn();
  reply.qkey = rep.qkey.value();
  ASSERT_EQ(passive.manager.SidrReply(passive.handle, reply, passive.sink), 0);
  passive.ExpectSaid(mads[1]);
}

}  // namespace
}  // namespace urnic::cm
