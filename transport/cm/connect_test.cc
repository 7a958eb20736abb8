// Setting up a connection: what each side learns, and the answer to a message
// that is repeated, late, or without a connection.

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/support/cm_pair.h"

namespace urnic::cm {
namespace {

using ::urnic::testing::SentMad;

class ConnectTest : public ::urnic::testing::CmPair {
 protected:
  wire::CmRej LastRej(int i) {
    if (sink(i).mads.empty() ||
        sink(i).mads.back().attribute() != wire::kCmRejAttribute) {
      ADD_FAILURE() << "no REJ";
      return wire::CmRej();
    }
    return sink(i).mads.back().As<wire::CmRej>();
  }
};

TEST_F(ConnectTest, ThePassiveSideLearnsWhatWasAsked) {
  Listen();
  ConnectParams params = Request();
  const uint8_t data[] = {1, 2, 3};
  params.private_data = data;
  params.srq = true;
  params.path.flow_label = 0xfedcb;
  params.path.traffic_class = 0x60;
  Connect(0, params);
  EXPECT_EQ(Deliver(0), RxVerdict::kAccept);
  const auto seen = Take(1, EventKind::kReqReceived);
  const Event& e = seen.event;
  EXPECT_EQ(e.user, kListenerUser);
  EXPECT_EQ(e.listener, node(1).listener);
  EXPECT_EQ(seen.from.remote, GidOf(0));
  EXPECT_EQ(e.service_id, kService);
  EXPECT_EQ(e.service, Service::kRc);
  EXPECT_EQ(e.remote_ca_guid, 0xca00u);
  EXPECT_EQ(e.remote_qpn, params.qpn);
  EXPECT_EQ(e.starting_psn, params.starting_psn);
  EXPECT_EQ(e.responder_resources, 3);
  EXPECT_EQ(e.initiator_depth, 5);
  EXPECT_EQ(e.retry_count, 6);
  EXPECT_EQ(e.rnr_retry_count, 4);
  EXPECT_TRUE(e.srq);
  EXPECT_EQ(e.path.local, GidOf(1));
  EXPECT_EQ(e.path.remote, GidOf(0));
  EXPECT_EQ(e.path.flow_label, 0xfedcbu);
  EXPECT_EQ(e.path.traffic_class, 0x60);
  ASSERT_EQ(seen.private_data.size(), wire::kReqPrivateBytes);
  EXPECT_EQ(seen.private_data[2], 3);
  EXPECT_EQ(seen.private_data[3], 0);
}

TEST_F(ConnectTest, BothSidesKnowHowToSetTheirQps) {
  ReachEstablished();
  QpAttributes active, passive;
  ASSERT_EQ(manager(0).GetQpAttributes(handle(0), active), 0);
  ASSERT_EQ(manager(1).GetQpAttributes(handle(1), passive), 0);
  EXPECT_EQ(active.local_qpn, passive.remote_qpn);
  EXPECT_EQ(active.remote_qpn, passive.local_qpn);
  EXPECT_EQ(active.send_psn, passive.receive_psn);
  EXPECT_EQ(active.receive_psn, passive.send_psn);
  // What the reply grants, as each side sees it.
  EXPECT_EQ(active.initiator_depth, 2);
  EXPECT_EQ(active.responder_resources, 1);
  EXPECT_EQ(passive.initiator_depth, 1);
  EXPECT_EQ(passive.responder_resources, 2);
  EXPECT_EQ(active.rnr_retry_count, 5);
  EXPECT_EQ(passive.rnr_retry_count, 4);
  EXPECT_EQ(passive.retry_count, 6);
  EXPECT_FALSE(active.passive);
  EXPECT_TRUE(passive.passive);
}

TEST_F(ConnectTest, PrivateDataOfReplyAndRtuArrives) {
  ReachReqReceived();
  AcceptParams reply = Reply();
  const std::vector<uint8_t> data(wire::kRepPrivateBytes, 0x5a);
  reply.private_data = data;
  ASSERT_EQ(manager(1).Accept(handle(1), reply, now_, sink(1)), 0);
  Pass(1);
  EXPECT_EQ(Take(0, EventKind::kRepReceived).private_data, data);
  const std::vector<uint8_t> rtu(wire::kRtuPrivateBytes, 0xa5);
  ASSERT_EQ(manager(0).SendRtu(handle(0), rtu, sink(0)), 0);
  Pass(0);
  EXPECT_EQ(Take(1, EventKind::kRtuReceived).private_data, rtu);
}

TEST_F(ConnectTest, EceIsPassedThrough) {
  Listen();
  ConnectParams params = Request();
  params.ece = {0x123456, 0xaabbccdd};
  Connect(0, params);
  Pass(0);
  const Ece asked = Take(1, EventKind::kReqReceived).event.ece;
  EXPECT_EQ(asked.vendor_id, 0x123456u);
  EXPECT_EQ(asked.options, 0xaabbccddu);
  AcceptParams reply = Reply();
  reply.ece = {0x654321, 0x1};
  ASSERT_EQ(manager(1).Accept(handle(1), reply, now_, sink(1)), 0);
  Pass(1);
  const auto seen = Take(0, EventKind::kRepReceived);
  EXPECT_EQ(seen.event.ece.vendor_id, 0x654321u);
  EXPECT_EQ(seen.event.ece.options, 0x1u);
  EXPECT_EQ(seen.event.remote_qpn, Reply().qpn);
  EXPECT_EQ(seen.event.starting_psn, Reply().starting_psn);
}

TEST_F(ConnectTest, ARequestWithoutAListenerIsRejected) {
  Connect();
  EXPECT_EQ(Deliver(0), RxVerdict::kCmNoListener);
  EXPECT_EQ(manager(1).in_use(), 0u);
  EXPECT_EQ(Deliver(1), RxVerdict::kAccept);
  const auto seen = Take(0, EventKind::kRejReceived);
  EXPECT_EQ(seen.event.reject_reason, wire::kRejInvalidServiceId);
  EXPECT_EQ(seen.event.user, kUser);
  EXPECT_EQ(manager(0).state(handle(0)), State::kIdle);
  EXPECT_FALSE(manager(0).IsQpnBusy(Request().qpn));
}

TEST_F(ConnectTest, ARejectCarriesReasonAriAndData) {
  ReachReqReceived();
  RejectParams params;
  const uint8_t ari[] = {9, 8, 7};
  const std::vector<uint8_t> data(wire::kRejPrivateBytes, 3);
  params.ari = ari;
  params.private_data = data;
  ASSERT_EQ(manager(1).Reject(handle(1), params, now_, sink(1)), 0);
  EXPECT_EQ(manager(1).state(handle(1)), State::kIdle);
  EXPECT_EQ(Deliver(1), RxVerdict::kAccept);
  const auto seen = Take(0, EventKind::kRejReceived);
  EXPECT_EQ(seen.event.reject_reason, wire::kRejConsumerDefined);
  EXPECT_EQ(seen.event.message_rejected, wire::kCmMessageReq);
  EXPECT_EQ(seen.ari, std::vector<uint8_t>({9, 8, 7}));
  EXPECT_EQ(seen.private_data, data);
}

TEST_F(ConnectTest, TheActiveSideRejectsTheReply) {
  ReachRepReceived();
  ASSERT_EQ(manager(0).Reject(handle(0), RejectParams(), now_, sink(0)), 0);
  EXPECT_EQ(Deliver(0), RxVerdict::kAccept);
  const auto seen = Take(1, EventKind::kRejReceived);
  EXPECT_EQ(seen.event.message_rejected, wire::kCmMessageRep);
  EXPECT_EQ(manager(1).state(handle(1)), State::kIdle);
}

TEST_F(ConnectTest, ThePassiveSideWithdrawsItsReply) {
  ReachRepSent();
  ASSERT_EQ(manager(1).Reject(handle(1), RejectParams(), now_, sink(1)), 0);
  EXPECT_EQ(manager(1).state(handle(1)), State::kTimewait);
  Pass(1);
  Take(0, EventKind::kRepReceived);
  EXPECT_EQ(Deliver(1), RxVerdict::kAccept);
  Take(0, EventKind::kRejReceived);
  EXPECT_EQ(manager(0).state(handle(0)), State::kTimewait);
}

//= IBTA 12.9.8.3.2
TEST_F(ConnectTest, ARepeatedRequestWaitsForTheDecision) {
  ReachReqReceived();
  ASSERT_TRUE(Wait());
  EXPECT_EQ(Deliver(0), RxVerdict::kCmDuplicate);
  ExpectQuiet(1);
  EXPECT_EQ(manager(1).in_use(), 2u);
}

//= IBTA 12.9.8.3.2
TEST_F(ConnectTest, ARepeatedRequestIsAnsweredByTheSameReply) {
  Listen();
  Connect();
  const SentMad req = sink(0).mads.front();
  Pass(0);
  Take(1, EventKind::kReqReceived);
  ASSERT_EQ(manager(1).Accept(handle(1), Reply(), now_, sink(1)), 0);
  const SentMad rep = sink(1).mads.front();
  sink(1).mads.clear();
  EXPECT_EQ(Give(1, req), RxVerdict::kCmDuplicate);
  ASSERT_EQ(sink(1).mads.size(), 1u);
  EXPECT_EQ(sink(1).mads.front().bytes, rep.bytes);
  EXPECT_TRUE(sink(1).events.empty());
}

//= IBTA 12.9.8.3.2
TEST_F(ConnectTest, ARepeatedRequestIsAnsweredByTheSameMra) {
  Listen();
  Connect();
  const SentMad req = sink(0).mads.front();
  Pass(0);
  Take(1, EventKind::kReqReceived);
  ASSERT_EQ(manager(1).PrepareMra(handle(1), 12), 0);
  EXPECT_EQ(Give(1, req), RxVerdict::kCmDuplicate);
  ASSERT_EQ(sink(1).mads.size(), 1u);
  const SentMad mra = sink(1).mads.front();
  sink(1).mads.clear();
  EXPECT_EQ(Give(1, req), RxVerdict::kCmDuplicate);
  ASSERT_EQ(sink(1).mads.size(), 1u);
  EXPECT_EQ(sink(1).mads.front().bytes, mra.bytes);
  EXPECT_EQ(Deliver(1), RxVerdict::kAccept);
  const auto seen = Take(0, EventKind::kMraReceived);
  EXPECT_EQ(seen.event.service_timeout_code, 12);
}

TEST_F(ConnectTest, AnMraCarriesPrivateData) {
  ReachReqReceived();
  auto mra = Mra(1, wire::kCmMessageReq, 12);
  mra.private_data[0] = 4;
  EXPECT_EQ(Give(0, mra), RxVerdict::kAccept);
  const auto seen = Take(0, EventKind::kMraReceived);
  EXPECT_EQ(seen.event.service_timeout_code, 12);
  EXPECT_EQ(seen.private_data[0], 4);
}

TEST_F(ConnectTest, APreparedMraIsSentOnlyWhenTheRequestIsRepeated) {
  ReachReqReceived();
  ASSERT_EQ(manager(1).PrepareMra(handle(1), 24), 0);
  ExpectQuiet(1);
  ASSERT_TRUE(Wait());
  EXPECT_EQ(Deliver(0), RxVerdict::kCmDuplicate);
  ASSERT_EQ(sink(1).mads.size(), 1u);
  EXPECT_EQ(sink(1).mads.front().attribute(), wire::kCmMraAttribute);
  Pass(1);
  Take(0, EventKind::kMraReceived);
  EXPECT_EQ(manager(0).state(handle(0)), State::kMraReqReceived);
  // The reply is still accepted.
  ASSERT_EQ(manager(1).Accept(handle(1), Reply(), now_, sink(1)), 0);
  EXPECT_EQ(Deliver(1), RxVerdict::kAccept);
  Take(0, EventKind::kRepReceived);
}

//= IBTA 12.9.8.3.2
TEST_F(ConnectTest, ARepeatedReplyIsAnsweredByTheSameRtu) {
  ReachRepSent();
  const SentMad rep = sink(1).mads.front();
  Pass(1);
  Take(0, EventKind::kRepReceived);
  EXPECT_EQ(Give(0, rep), RxVerdict::kCmDuplicate);
  ExpectQuiet(0);
  const uint8_t data[] = {6};
  ASSERT_EQ(manager(0).SendRtu(handle(0), data, sink(0)), 0);
  const SentMad rtu = sink(0).mads.front();
  sink(0).mads.clear();
  EXPECT_EQ(Give(0, rep), RxVerdict::kCmDuplicate);
  ASSERT_EQ(sink(0).mads.size(), 1u);
  EXPECT_EQ(sink(0).mads.front().bytes, rtu.bytes);
  Pass(0);
  Take(1, EventKind::kRtuReceived);
  EXPECT_EQ(Give(1, rtu), RxVerdict::kCmDuplicate);
  ExpectQuiet(1);
}

TEST_F(ConnectTest, AReplyIsAnsweredByAnMraAndWaits) {
  ReachRepSent();
  const SentMad rep = sink(1).mads.front();
  Pass(1);
  Take(0, EventKind::kRepReceived);
  ASSERT_EQ(manager(0).PrepareMra(handle(0), 12), 0);
  EXPECT_EQ(Give(0, rep), RxVerdict::kCmDuplicate);
  EXPECT_EQ(Deliver(0), RxVerdict::kAccept);
  Take(1, EventKind::kMraReceived);
  EXPECT_EQ(manager(1).state(handle(1)), State::kMraRepReceived);
  EXPECT_EQ(Give(0, rep), RxVerdict::kCmDuplicate);
  EXPECT_EQ(Deliver(0), RxVerdict::kCmDuplicate);
  ASSERT_EQ(manager(0).SendRtu(handle(0), {}, sink(0)), 0);
  EXPECT_EQ(Deliver(0), RxVerdict::kAccept);
  Take(1, EventKind::kRtuReceived);
}

TEST_F(ConnectTest, DataEstablishesWhenTheRtuIsLost) {
  ReachRepReceived();
  ASSERT_EQ(manager(0).SendRtu(handle(0), {}, sink(0)), 0);
  ASSERT_EQ(manager(1).EstablishByTraffic(handle(1), sink(1)), 0);
  Take(1, EventKind::kUserEstablished);
  EXPECT_EQ(manager(1).EstablishByTraffic(handle(1), sink(1)), EISCONN);
  EXPECT_TRUE(manager(1).NextDeadline().IsInfinite());
  EXPECT_EQ(Deliver(0), RxVerdict::kCmDuplicate);
  ExpectQuiet(1);
}

TEST_F(ConnectTest, AReplyForNothingIsRejected) {
  ReachRepSent();
  Restart(0, 64, 32);
  EXPECT_EQ(Deliver(1), RxVerdict::kCmNoConnection);
  EXPECT_EQ(LastRej(0).reason.value(), wire::kRejInvalidCommId);
  EXPECT_EQ(Deliver(0), RxVerdict::kAccept);
  Take(1, EventKind::kRejReceived);
  EXPECT_EQ(manager(1).state(handle(1)), State::kIdle);
}

TEST_F(ConnectTest, AnRtuForAWithdrawnReplyIsRejectedAgain) {
  ReachRepSent();
  Pass(1);
  Take(0, EventKind::kRepReceived);
  ASSERT_EQ(manager(1).Reject(handle(1), RejectParams(), now_, sink(1)), 0);
  sink(1).mads.clear();  // lost
  ASSERT_EQ(manager(0).SendRtu(handle(0), {}, sink(0)), 0);
  EXPECT_EQ(Deliver(0), RxVerdict::kCmDuplicate);
  Pass(1);
  Take(0, EventKind::kRejReceived);
  EXPECT_EQ(manager(0).state(handle(0)), State::kTimewait);
}

TEST_F(ConnectTest, AnRtuForNothingIsRejected) {
  ReachRepReceived();
  ASSERT_EQ(manager(0).SendRtu(handle(0), {}, sink(0)), 0);
  Restart(1, 64, 32);
  EXPECT_EQ(Deliver(0), RxVerdict::kCmNoConnection);
  Pass(1);
  EXPECT_EQ(Take(0, EventKind::kRejReceived).event.reject_reason,
            wire::kRejInvalidCommId);
}

TEST_F(ConnectTest, AWithdrawnRequestEndsThePassiveSide) {
  ReachReqReceived();
  ASSERT_EQ(manager(0).Destroy(handle(0), now_, sink(0)), 0);
  EXPECT_EQ(LastRej(0).reason.value(), wire::kRejTimeout);
  EXPECT_EQ(Deliver(0), RxVerdict::kAccept);
  const auto seen = Take(1, EventKind::kRejReceived);
  EXPECT_EQ(seen.event.reject_reason, wire::kRejTimeout);
  EXPECT_EQ(manager(1).state(handle(1)), State::kIdle);
  EXPECT_EQ(manager(1).Accept(handle(1), Reply(), now_, sink(1)), EINVAL);
}

//= IBTA 12.9.8.3.1
TEST_F(ConnectTest, AQpThatIsConnectedIsStaleInANewRequest) {
  ReachEstablished();
  const Handle old = handle(1);
  Restart(0, 64, 32);
  Connect();
  EXPECT_EQ(Deliver(0), RxVerdict::kCmStale);
  ASSERT_EQ(sink(1).mads.size(), 2u);
  EXPECT_EQ(sink(1).mads.front().As<wire::CmRej>().reason.value(),
            wire::kRejStaleConnection);
  Pass(1);
  Take(0, EventKind::kRejReceived);
  // The old connection is ended: the peer no longer knows it.
  EXPECT_EQ(manager(1).state(old), State::kDreqSent);
  EXPECT_EQ(Deliver(1), RxVerdict::kCmNoConnection);
  EXPECT_EQ(Deliver(0), RxVerdict::kAccept);
  Take(1, EventKind::kDrepReceived);
  EXPECT_EQ(manager(1).state(old), State::kTimewait);
}

TEST_F(ConnectTest, AQpThatIsConnectedIsStaleInAReply) {
  ReachEstablished();
  const Handle old = handle(0);
  Restart(1, 64, 32);
  Listen();
  ConnectParams params = Request();
  params.qpn = Qpn{0x300};
  Connect(0, params);
  Pass(0);
  Take(1, EventKind::kReqReceived);
  ASSERT_EQ(manager(1).Accept(handle(1), Reply(), now_, sink(1)), 0);
  const SentMad rep = sink(1).mads.front();
  EXPECT_EQ(Deliver(1), RxVerdict::kCmStale);
  const auto seen = Take(0, EventKind::kRejReceived);
  EXPECT_EQ(seen.event.reject_reason, wire::kRejStaleConnection);
  EXPECT_EQ(manager(0).state(handle(0)), State::kIdle);
  EXPECT_EQ(manager(0).state(old), State::kDreqSent);
  Pass(0);
  Take(1, EventKind::kRejReceived);
  // The same reply, late, when nothing is stale any more, sets up nothing.
  EXPECT_EQ(Give(0, rep), RxVerdict::kCmNoConnection);
}

TEST_F(ConnectTest, AForgedRequestFromElsewhereEndsNothing) {
  ReachEstablished();
  Restart(0, 64, 32);
  Connect();
  net::PathQuery elsewhere = PathFrom(1);
  elsewhere.remote = GidOf(7);
  EXPECT_EQ(
      manager(1).OnMad(sink(0).mads.front().bytes, elsewhere, now_, sink(1)),
      RxVerdict::kAccept);
  EXPECT_EQ(manager(1).state(handle(1)), State::kEstablished);
  EXPECT_TRUE(sink(1).mads.empty());
}

// Anyone can write another host's CA and queue pair into a request.
TEST_F(ConnectTest, ARequestFromElsewhereDoesNotMakeAQpStale) {
  Listen();
  Connect();
  net::PathQuery elsewhere = PathFrom(1);
  elsewhere.remote = GidOf(7);
  EXPECT_EQ(
      manager(1).OnMad(sink(0).mads.front().bytes, elsewhere, now_, sink(1)),
      RxVerdict::kAccept);
  Take(1, EventKind::kReqReceived);
  ASSERT_EQ(manager(1).Accept(handle(1), Reply(), now_, sink(1)), 0);
  sink(1).mads.clear();
  // The same for the communication id, which is looked up in the same way.
  Pass(0);
  Take(1, EventKind::kReqReceived);
  AcceptParams reply = Reply();
  reply.qpn = Qpn{0x300};
  ASSERT_EQ(manager(1).Accept(handle(1), reply, now_, sink(1)), 0);
  Pass(1);
  Take(0, EventKind::kRepReceived);
}

TEST_F(ConnectTest, AQpInTimewaitIsStaleInANewRequest) {
  ReachEstablished();
  ASSERT_EQ(manager(0).Disconnect(handle(0), {}, now_, sink(0)), 0);
  Pass(0);
  Take(1, EventKind::kDreqReceived);
  ASSERT_EQ(manager(1).SendDrep(handle(1), {}, now_, sink(1)), 0);
  sink(1).mads.clear();
  Restart(0, 64, 32);
  Connect();
  EXPECT_EQ(Deliver(0), RxVerdict::kCmStale);
  EXPECT_EQ(LastRej(1).reason.value(), wire::kRejStaleConnection);
  Pass(1);
  Take(0, EventKind::kRejReceived);
  EXPECT_EQ(manager(0).state(handle(0)), State::kTimewait);
  while (Wait()) {
  }
  Take(1, EventKind::kTimewaitExit);
  Take(0, EventKind::kTimewaitExit);
  Connect();
  EXPECT_EQ(Deliver(0), RxVerdict::kAccept);
}

TEST_F(ConnectTest, XrcNamesTheTargetInTheEecField) {
  Listen();
  ConnectParams params = Request();
  params.service = Service::kXrc;
  Connect(0, params);
  const auto req = sink(0).mads.front().As<wire::CmReq>();
  EXPECT_EQ(req.transport_service(), 3);
  EXPECT_EQ(req.extended_transport(), 1);
  EXPECT_EQ(req.responder_resources(), 0);
  Pass(0);
  EXPECT_EQ(Take(1, EventKind::kReqReceived).event.service, Service::kXrc);
  ASSERT_EQ(manager(1).Accept(handle(1), Reply(), now_, sink(1)), 0);
  const auto rep = sink(1).mads.front().As<wire::CmRep>();
  EXPECT_EQ(rep.local_qpn().value, 0u);
  EXPECT_EQ(rep.local_eecn(), Reply().qpn.value);
  EXPECT_TRUE(rep.srq());
  Pass(1);
  EXPECT_EQ(Take(0, EventKind::kRepReceived).event.remote_qpn, Reply().qpn);
  ASSERT_EQ(manager(0).SendRtu(handle(0), {}, sink(0)), 0);
  Pass(0);
  Take(1, EventKind::kRtuReceived);
  // The target QP outlives its connection: no message is sent.
  ASSERT_EQ(manager(1).Destroy(handle(1), now_, sink(1)), 0);
  ExpectQuiet(1);
  EXPECT_EQ(manager(1).in_use(), 1u);
}

TEST_F(ConnectTest, ReliableDatagramsAreRejected) {
  Listen();
  Connect();
  auto req = sink(0).mads.front().As<wire::CmReq>();
  req.set_transport_service(2);
  EXPECT_EQ(Give(1, req), RxVerdict::kCmBadTransport);
  EXPECT_EQ(LastRej(1).reason.value(), wire::kRejInvalidTransport);
  EXPECT_EQ(manager(1).in_use(), 1u);
}

TEST_F(ConnectTest, AnAlternatePathIsNotUsed) {
  Listen();
  Connect();
  auto req = sink(0).mads.front().As<wire::CmReq>();
  req.alternate.local_gid = GidOf(5);
  ASSERT_EQ(Give(1, req), RxVerdict::kAccept);
  Take(1, EventKind::kReqReceived);
  ASSERT_EQ(manager(1).Accept(handle(1), Reply(), now_, sink(1)), 0);
  EXPECT_EQ(sink(1).mads.front().As<wire::CmRep>().failover(),
            wire::kFailoverUnsupported);
}

TEST_F(ConnectTest, RoceV1IsOneSubnet) {
  ConnectParams params = Request();
  params.path.hop_limit = 1;
  Connect(0, params);
  const auto req = sink(0).mads.front().As<wire::CmReq>();
  EXPECT_TRUE(req.primary.subnet_local());
  EXPECT_EQ(req.primary.local_lid.value(), 0);
}

TEST_F(ConnectTest, AnExactListenerComesBeforeAMaskedOne) {
  Handle masked, exact;
  ASSERT_EQ(manager(1).Listen(kService, 0xffffffffff000000, 1, masked), 0);
  ASSERT_EQ(manager(1).Listen(kService, 0, 2, exact), 0);
  Connect();
  Pass(0);
  EXPECT_EQ(Take(1, EventKind::kReqReceived).event.user, 2u);
  ConnectParams other = Request();
  other.service_id = kService + 1;
  other.qpn = Qpn{0x300};
  Connect(0, other);
  Pass(0);
  EXPECT_EQ(Take(1, EventKind::kReqReceived).event.user, 1u);
  ASSERT_EQ(manager(1).Unlisten(masked), 0);
  other.qpn = Qpn{0x301};
  Connect(0, other);
  EXPECT_EQ(Deliver(0), RxVerdict::kCmNoListener);
}

TEST_F(ConnectTest, AMessageFromElsewhereIsNotFromThePeer) {
  ReachRepSent();
  const SentMad rep = sink(1).mads.front();
  net::PathQuery elsewhere = PathFrom(0);
  elsewhere.remote = GidOf(7);
  EXPECT_EQ(manager(0).OnMad(rep.bytes, elsewhere, now_, sink(0)),
            RxVerdict::kCmWrongPeer);
  ExpectQuiet(0);
  EXPECT_EQ(manager(0).state(handle(0)), State::kReqSent);
}

}  // namespace
}  // namespace urnic::cm
