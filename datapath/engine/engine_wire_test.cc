// The engine and packets that the test makes: which ones it accepts, and how it
// answers.

#include "datapath/engine/engine.h"
#include "datapath/engine/engine_wire_fixture.h"
#include "datapath/engine/environment.h"
#include "datapath/engine/network.h"
#include "transport/wire/mad.h"
#include "transport/wire/membership.h"

namespace urnic {
namespace {

TEST_F(EngineWireTest, ACorrectWriteIsExecutedAndAcknowledged) {
  Connect();
  ExpectExecuted(Frame(Headers(), Write(0)));
  EXPECT_EQ(node_.engine().counters().ce_received, 0u);
}

// An acknowledgement waits for an answer of the program, but a control call
// sends it: the program may next wait for an action of the peer, which may need
// the acknowledgement first (perftest's server listens again).
TEST_F(EngineWireTest, AControlCallSendsTheAcknowledgementsThatWait) {
  Connect();
  ASSERT_TRUE(node_.rings().PostRecv({.wr_id = 1, .sges = {node_.Sge(0, 64)}}));
  wire::PacketFields send;
  send.opcode = static_cast<uint8_t>(wire::Opcode::kRcSendOnly);
  send.dest_qp = Qpn{node_.qp().qpn()};
  send.ack_requested = true;
  send.payload = kPayload;
  Transmit(Frame(Headers(), send));
  node_.engine().Progress();
  urnic_cqe cqe = {};
  ASSERT_TRUE(node_.Poll(cqe));
  EXPECT_TRUE(Received().empty());
  { Engine::ControlScope scope(node_.engine()); }
  EXPECT_EQ(Received().size(), 1u);
}

// A program that spins on memory and answers each write by a write: the runner
// learns that, and then an acknowledgement waits for the answer and leaves
// behind it. Only turns and posts run the engine, so nothing depends on time.
TEST_F(EngineWireTest, AnAcknowledgementWaitsForAProgramThatAnswersInMemory) {
  Connect();
  const auto turn = [&] {
    ASSERT_TRUE(
        node_.engine().TakeTurn([](Engine::Turn& at) { at.Iterate(); }));
  };
  const auto opcodes = [&] {
    std::vector<wire::Opcode> list;
    for (const Bytes& frame : Received())
      list.push_back(static_cast<wire::Opcode>(frame[14 + 28]));
    return list;
  };
  using List = std::vector<wire::Opcode>;
  const List ack = {wire::Opcode::kRcAcknowledge};
  const List write = {wire::Opcode::kRcWriteOnly};
  for (uint32_t round = 0; round < 8; ++round) {
    Transmit(Frame(Headers(), Write(round)));
    turn();
    EXPECT_EQ(opcodes(), round < 4 ? ack : List()) << round;
    testing::SendWr wr;
    wr.opcode = URNIC_WR_RDMA_WRITE;
    wr.sges = {node_.Sge(0, kBytes)};
    ASSERT_TRUE(node_.rings().PostSend(wr));
    node_.engine().Doorbell(node_.qp());
    EXPECT_EQ(opcodes(), round < 4 ? write
                                   : (List{wire::Opcode::kRcWriteOnly,
                                           wire::Opcode::kRcAcknowledge}))
        << round;
    // The peer's acknowledgement, so that no timer is left.
    wire::PacketFields done;
    done.opcode = static_cast<uint8_t>(wire::Opcode::kRcAcknowledge);
    done.dest_qp = Qpn{node_.qp().qpn()};
    done.psn = Psn(round);
    done.syndrome = wire::kAethCreditsInvalid;
    done.msn = round + 1;
    Transmit(Frame(Headers(), done));
    turn();
    // On a busy machine the write may have been sent again meanwhile.
    Received();
    urnic_cqe cqe = {};
    ASSERT_TRUE(node_.Poll(cqe));
  }
}

TEST_F(EngineWireTest, RoceV1IsAnsweredInRoceV1) {
  Connect(/*roce_v1=*/true);
  wire::PathHeaders headers = Headers();
  headers.roce_v1 = true;
  ExpectExecuted(Frame(headers, Write(0)));
}

// The GIDs and the ICRC are right; only the version is wrong.
TEST_F(EngineWireTest, TheOtherRoceVersionIsNotThePeers) {
  Connect();
  wire::PathHeaders headers = Headers();
  headers.roce_v1 = true;
  ExpectRefused(Frame(headers, Write(0)), RxVerdict::kWrongPeer);
}

TEST_F(EngineWireTest, ARoceV1QueuePairRefusesRoceV2) {
  Connect(/*roce_v1=*/true);
  const uint64_t before = CountOf(RxVerdict::kWrongPeer);
  Transmit(Frame(Headers(), Write(0)));
  Run();
  EXPECT_EQ(CountOf(RxVerdict::kWrongPeer), before + 1);
  EXPECT_FALSE(Written());
}

TEST_F(EngineWireTest, DamageAfterTheMaskedGrhIsAWrongIcrc) {
  Connect(/*roce_v1=*/true);
  wire::PathHeaders headers = Headers();
  headers.roce_v1 = true;
  const Bytes good = Frame(headers, Write(0));
  for (size_t at = 14 + 40; at < good.size(); ++at) {
    if (at == 14 + 40 + 4) continue;  // FECN and BECN
    Bytes frame = good;
    frame[at] ^= 0x40;
    Transmit(frame);
    Run();
    EXPECT_FALSE(Written()) << at;
  }
  Bytes frame = good;
  frame[15] ^= 0xff;      // traffic class and flow label
  frame[14 + 7] ^= 0xff;  // hop limit
  ExpectExecuted(frame);
}

TEST_F(EngineWireTest, APacketFromAnotherHostIsNotThePeers) {
  Connect();
  wire::PathHeaders headers = Headers();
  headers.src = wire::Gid::FromIpv4(kStrangerIp);
  ExpectRefused(Frame(headers, Write(0)), RxVerdict::kWrongPeer);
}

TEST_F(EngineWireTest, APacketToAnotherAddressIsNotForUs) {
  Connect();
  wire::PathHeaders headers = Headers();
  headers.dst = wire::Gid::FromIpv4(kStrangerIp);
  ExpectRefused(Frame(headers, Write(0)), RxVerdict::kNotForUs);
}

TEST_F(EngineWireTest, APacketToAnotherAddressOfOursIsNotTheQueuePairs) {
  Connect();
  SetAddresses({node_.gid(), wire::Gid::FromIpv4(kSecondIp)});
  Run();
  Received();  // the announcement of the address
  wire::PathHeaders headers = Headers();
  headers.dst = wire::Gid::FromIpv4(kSecondIp);
  ExpectRefused(Frame(headers, Write(0)), RxVerdict::kWrongPeer);
}

TEST_F(EngineWireTest, AnUnknownQueuePairIsCountedOnlyAtOurAddress) {
  Connect();
  wire::PacketFields fields = Write(0);
  fields.dest_qp = Qpn{node_.qp().qpn() ^ 1};
  ExpectRefused(Frame(Headers(), fields), RxVerdict::kUnknownQp);
  wire::PathHeaders headers = Headers();
  headers.dst = wire::Gid::FromIpv4(kStrangerIp);
  Transmit(Frame(headers, fields));
  Run();
  EXPECT_EQ(CountOf(RxVerdict::kNotForUs), 1u);
}

// The upper bits of the number name the RNIC; they are compared as well.
TEST_F(EngineWireTest, AnotherNumberOfTheSamePlaceIsUnknown) {
  Connect();
  wire::PacketFields fields = Write(0);
  fields.dest_qp = Qpn{node_.qp().qpn() ^ (1u << 20)};
  ExpectRefused(Frame(Headers(), fields), RxVerdict::kUnknownQp);
}

TEST_F(EngineWireTest, AForeignPartitionIsRefused) {
  Connect();
  wire::PacketFields fields = Write(0);
  fields.pkey = 0x8001;
  ExpectRefused(Frame(Headers(), fields), RxVerdict::kBadPkey);
}

TEST_F(EngineWireTest, ALimitedMemberMayTalkToAFullOne) {
  Connect();
  wire::PacketFields fields = Write(0);
  fields.pkey = 0x7fff;
  ExpectExecuted(Frame(Headers(), fields));
}

// QP1 belongs to every partition of the table; here that is the default one.
//= IBTA 9.6.1.1.3, 13.5.1
TEST_F(EngineWireTest, AManagementDatagramOfAnotherPartitionIsRefused) {
  const uint8_t mad[wire::kMadBytes] = {};
  wire::PacketFields fields;
  fields.opcode = static_cast<uint8_t>(wire::Opcode::kUdSendOnly);
  fields.dest_qp = Qpn{1};
  fields.qkey = wire::kQp1Qkey;
  fields.payload = mad;
  fields.pkey = 0x8001;
  Transmit(Frame(Headers(), fields));
  Run();
  EXPECT_EQ(CountOf(RxVerdict::kBadPkey), 1u);
  fields.pkey = 0x7fff;
  Transmit(Frame(Headers(), fields));
  Run();
  EXPECT_EQ(CountOf(RxVerdict::kUnknownMadAttribute), 1u)
      << "nobody serves QP1";
}

constexpr uint32_t kGroupIp = 0xe1020304;

// The groups that were reported or left since the last call.
std::vector<std::pair<wire::Gid, uint8_t>> Memberships(
    const std::vector<Bytes>& frames) {
  std::vector<std::pair<wire::Gid, uint8_t>> list;
  for (const Bytes& frame : frames) {
    wire::MembershipInfo info;
    if (wire::ParseMembership(frame, info) != RxVerdict::kMembership) continue;
    list.emplace_back(info.group, frame[14 + 24]);  // the type of an IGMP
  }
  return list;
}

// A general query of IGMPv2, to be answered within 0.1 seconds.
Bytes GeneralQuery() {
  Bytes frame = {0x01, 0,    0x5e, 0, 0,    1,    2,   0, 0, 0, 0,    9,
                 0x08, 0x00, 0x46, 0, 0,    32,   0,   0, 0, 0, 1,    2,
                 0,    0,    10,   1, 0,    9,    224, 0, 0, 1, 0x94, 4,
                 0,    0,    0x11, 1, 0xee, 0xfe, 0,   0, 0, 0};
  const uint16_t sum = wire::Checksum({frame.data() + 14, 24});
  frame[24] = static_cast<uint8_t>(sum >> 8);
  frame[25] = static_cast<uint8_t>(sum);
  return frame;
}

TEST_F(EngineWireTest, AQueryIsAnsweredForJoinedGroupsOnly) {
  const wire::Gid group = wire::Gid::FromIpv4(kGroupIp);
  const std::pair<wire::Gid, uint8_t> report = {group, 0x16};
  const std::pair<wire::Gid, uint8_t> leave = {group, 0x17};
  Transmit(GeneralQuery());
  Run();
  EXPECT_EQ(CountOf(RxVerdict::kMembership), 1u);
  {
    Engine::ControlScope scope(node_.engine());
    ASSERT_TRUE(
        node_.network().JoinGroup(node_.qp(), group, Environment::Now()).ok());
    // Every host is a member of this group, so it is never reported.
    const wire::Gid all_hosts = wire::Gid::FromIpv4(0xe0000001);
    ASSERT_TRUE(node_.network()
                    .JoinGroup(node_.qp(), all_hosts, Environment::Now())
                    .ok());
  }
  Run();
  EXPECT_EQ(Memberships(Received()), std::vector{report});
  Transmit(GeneralQuery());
  std::vector<std::pair<wire::Gid, uint8_t>> answers;
  while (answers.empty()) {
    Run();
    answers = Memberships(Received());
  }
  EXPECT_EQ(answers, std::vector{report});
  {
    Engine::ControlScope scope(node_.engine());
    ASSERT_TRUE(
        node_.network().LeaveGroup(node_.qp(), group, Environment::Now()));
  }
  Run();
  EXPECT_EQ(Memberships(Received()), std::vector{leave});
}

//= IBTA 9.8.3.4
TEST_F(EngineWireTest, ADatagramOfAnotherPartitionIsDroppedAndCounted) {
  Connect();
  const wire::Gid group = wire::Gid::FromIpv4(kGroupIp);
  {
    Engine::ControlScope scope(node_.engine());
    ASSERT_TRUE(
        node_.network().JoinGroup(node_.qp(), group, Environment::Now()).ok());
  }
  wire::PathHeaders headers = Headers();
  headers.dst = group;
  headers.dst_mac = wire::MulticastMac(group);
  wire::PacketFields fields;
  fields.opcode = static_cast<uint8_t>(wire::Opcode::kUdSendOnly);
  fields.dest_qp = Qpn{0xffffff};
  fields.pkey = 0x8123;
  fields.payload = kPayload;
  Transmit(Frame(headers, fields));
  Run();
  EXPECT_EQ(CountOf(RxVerdict::kMulticast), 1u);
  EXPECT_EQ(CountOf(RxVerdict::kBadPkey), 1u);
}

TEST_F(EngineWireTest, AnyDamageAfterTheUdpHeaderIsAWrongIcrc) {
  Connect();
  Bytes frame = Frame(Headers(), Write(0));
  for (const size_t from_end : {1, 4, 5, 12}) {
    Bytes damaged = frame;
    damaged[damaged.size() - from_end] ^= 0x10;
    Transmit(damaged);
  }
  Run();
  EXPECT_EQ(CountOf(RxVerdict::kBadIcrc), 4u);
  EXPECT_FALSE(Written());
  EXPECT_TRUE(Received().empty()) << "damage is not answered";
  ExpectExecuted(frame);
}

// The cached part of the ICRC must follow the headers.
TEST_F(EngineWireTest, TheIcrcIsRightWhenHeadersChange) {
  Connect();
  ExpectExecuted(Frame(Headers(), Write(0)));
  for (uint32_t psn = 1; psn < 40; ++psn) {
    wire::PathHeaders headers = Headers();
    headers.udp_src_port = static_cast<uint16_t>(49152 + psn * 7);
    headers.ipv4_identification = static_cast<uint16_t>(psn * 257);
    headers.hop_limit = static_cast<uint8_t>(psn);
    ExpectExecuted(Frame(headers, Write(psn)));
  }
  EXPECT_EQ(CountOf(RxVerdict::kBadIcrc), 0u);
}

TEST_F(EngineWireTest, ACongestionNotificationIsCountedAndHalvesTheWindow) {
  constexpr uint32_t kWindow = 16;
  Connect(/*roce_v1=*/false, kWindow);
  ExpectRefused(Frame(Headers(), Notification()), RxVerdict::kCnp);
  EXPECT_EQ(SentOf(2 * kWindow), kWindow / 2);
}

TEST_F(EngineWireTest, OnlyThePeerSlowsAQueuePairDown) {
  constexpr uint32_t kWindow = 16;
  Connect(/*roce_v1=*/false, kWindow);
  wire::PathHeaders headers = Headers();
  headers.src = wire::Gid::FromIpv4(kStrangerIp);
  ExpectRefused(Frame(headers, Notification()), RxVerdict::kWrongPeer);
  wire::PacketFields fields = Notification();
  fields.pkey = 0x8001;
  Transmit(Frame(Headers(), fields));
  Bytes damaged = Frame(Headers(), Notification());
  damaged.back() ^= 1;
  Transmit(damaged);
  Run();
  EXPECT_EQ(CountOf(RxVerdict::kBadPkey), 1u);
  EXPECT_EQ(CountOf(RxVerdict::kBadIcrc), 1u);
  EXPECT_EQ(CountOf(RxVerdict::kCnp), 0u);
  EXPECT_EQ(SentOf(2 * kWindow), kWindow);
}

TEST_F(EngineWireTest, ThePeerIsNotifiedOfAMarkAndThePacketIsExecuted) {
  Connect();
  wire::PathHeaders headers = Headers();
  headers.traffic_class = wire::kEcnCongestionExperienced;
  Transmit(Frame(headers, Write(0)));
  Run();
  EXPECT_TRUE(Written());
  EXPECT_EQ(node_.engine().counters().ce_received, 1u);
  const RoceCounters& roce = node_.engine().counters().roce;
  EXPECT_EQ(roce.np_ecn_marked_roce_packets, 1u);
  EXPECT_EQ(roce.np_cnp_sent, 1u) << "while the queue pair lives";
  const std::vector<Bytes> answers = Received();
  ASSERT_EQ(answers.size(), 2u);
  wire::FrameView view;
  wire::RocePacket packet;
  ASSERT_EQ(wire::ParseFrame(answers[0].data(), answers[0].size(), view),
            RxVerdict::kAccept);
  EXPECT_TRUE(wire::VerifyIcrc(view.l3, view.framing, view.payload_bytes));
  ASSERT_EQ(wire::ParseRoce(view.payload, view.payload_bytes, packet),
            RxVerdict::kAccept);
  EXPECT_EQ(packet.info->kind, wire::PacketKind::kCnp);
  EXPECT_EQ(packet.bth->dest_qp().value, kPeerQpn);
  EXPECT_TRUE(packet.bth->becn());
}

// The ICRC does not cover the ECN bits, so the bits of a damaged packet mean
// nothing.
TEST_F(EngineWireTest, ThePeerIsNotNotifiedOfAMarkOnADamagedPacket) {
  Connect();
  wire::PathHeaders headers = Headers();
  headers.traffic_class = wire::kEcnCongestionExperienced;
  Bytes damaged = Frame(headers, Write(0));
  damaged.back() ^= 1;
  ExpectRefused(damaged, RxVerdict::kBadIcrc);
  EXPECT_EQ(node_.engine().counters().roce.np_ecn_marked_roce_packets, 0u);
  Engine::ControlScope scope(node_.engine());
  EXPECT_EQ(node_.engine().CountersOfAll().roce.rx_icrc_encapsulated, 1u);
}

TEST_F(EngineWireTest, AnotherTransportServiceIsRefused) {
  Connect();
  wire::PacketFields fields;
  fields.opcode = static_cast<uint8_t>(wire::Opcode::kUdSendOnly);
  fields.dest_qp = Qpn{node_.qp().qpn()};
  fields.payload = kPayload;
  ExpectRefused(Frame(Headers(), fields), RxVerdict::kWrongTransport);
}

TEST_F(EngineWireTest, AVersionThatIsNotZeroIsRefused) {
  Connect();
  Bytes frame = Frame(Headers(), Write(0));
  Bth(frame)[1] |= 1;
  Seal(frame);
  ExpectRefused(frame, RxVerdict::kBadBthVersion);
}

TEST_F(EngineWireTest, AReservedOpcodeIsRefused) {
  Connect();
  Bytes frame = Frame(Headers(), Write(0));
  Bth(frame)[0] = 0x1f;
  Seal(frame);
  ExpectRefused(frame, RxVerdict::kUnknownOpcode);
}

TEST_F(EngineWireTest, AFrameShorterThanItsHeadersSayIsTruncated) {
  Connect();
  Bytes frame = Frame(Headers(), Write(0));
  frame.resize(frame.size() - 4);
  ExpectRefused(frame, RxVerdict::kTruncated);
}

// Ethernet pads short frames: the length in the IP header counts.
TEST_F(EngineWireTest, BytesAfterThePacketAreIgnored) {
  Connect();
  Bytes frame = Frame(Headers(), Write(0));
  frame.resize(frame.size() + 20, 0xee);
  ExpectExecuted(frame);
}

TEST_F(EngineWireTest, AQueuePairThatIsNotReadyReceivesNothing) {
  Transmit(Frame(Headers(), Write(0)));
  Run();
  EXPECT_EQ(CountOf(RxVerdict::kQpNotReady), 1u);
  EXPECT_FALSE(Written());
  EXPECT_TRUE(Received().empty());
}

}  // namespace
}  // namespace urnic
