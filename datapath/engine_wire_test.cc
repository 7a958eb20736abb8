// The engine before a stranger: at the other end of its ring is a port in the
// hands of the test, which sends frames that no RNIC of ours would send and
// looks at what comes back.

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "datapath/eal.h"
#include "tests/support/engine_node.h"
#include "transport/wire/frame.h"
#include "transport/wire/header_template.h"
#include "transport/wire/icrc.h"
#include "transport/wire/mad.h"
#include "transport/wire/membership.h"
#include "transport/wire/neighbor.h"
#include "transport/wire/packet.h"

namespace urnic {
namespace {

using testing::EngineNode;
using Bytes = std::vector<uint8_t>;

constexpr uint32_t kOurIp = 0x0a010001;
constexpr uint32_t kPeerIp = 0x0a010002;
constexpr uint32_t kStrangerIp = 0x0a010003;
constexpr uint32_t kSecondIp = 0x0a010009;  // ours, now and then
constexpr uint32_t kPeerQpn = 0x1234;
constexpr size_t kTarget = 4096;  // what the test's packets write to
constexpr uint32_t kBytes = 8;

class EngineWireTest : public ::testing::Test {
 protected:
  EngineWireTest()
      : node_("ring:wire:a", kOurIp),
        peer_(testing::OpenTestPort("ring:wire:b")) {
    while (node_.port().info().state != PortState::kUp) {
      std::this_thread::yield();
    }
  }

  // --- The stranger's port ---------------------------------------------------

  void Transmit(const Bytes& frame) {
    TakeLcore(peer_->lcore());
    rte_mbuf* m = rte_pktmbuf_alloc(peer_->pool());
    ASSERT_NE(m, nullptr);
    std::memcpy(rte_pktmbuf_append(m, static_cast<uint16_t>(frame.size())),
                frame.data(), frame.size());
    EXPECT_EQ(peer_->Transmit(&m, 1), 1);
    ReleaseLcore();
  }

  std::vector<Bytes> Received() {
    std::vector<Bytes> list;
    rte_mbuf* frames[kBurstMax];
    TakeLcore(peer_->lcore());
    while (const uint16_t n = peer_->Receive(frames, kBurstMax)) {
      for (uint16_t i = 0; i < n; ++i) {
        const auto* data = rte_pktmbuf_mtod(frames[i], const uint8_t*);
        list.emplace_back(data, data + frames[i]->data_len);
      }
      rte_pktmbuf_free_bulk(frames, n);
    }
    ReleaseLcore();
    return list;
  }

  // --- Its packets -----------------------------------------------------------

  wire::NeighborSelf Peer(uint32_t ip = kPeerIp) const {
    wire::NeighborSelf self;
    self.mac.bytes = peer_->mac();
    self.gid = wire::Gid::FromIpv4(ip);
    return self;
  }
  wire::PathHeaders Headers() const {
    wire::PathHeaders headers;
    headers.src_mac.bytes = peer_->mac();
    headers.dst_mac.bytes = const_cast<EngineNode&>(node_).port().mac();
    headers.src = wire::Gid::FromIpv4(kPeerIp);
    headers.dst = node_.gid();
    headers.udp_src_port = 50000;
    return headers;
  }
  // A write to kTarget that is right in everything.
  wire::PacketFields Write(uint32_t psn) {
    wire::PacketFields fields;
    fields.opcode = static_cast<uint8_t>(wire::Opcode::kRcWriteOnly);
    fields.dest_qp = Qpn{node_.qp().qpn()};
    fields.psn = Psn(psn);
    fields.ack_requested = true;
    fields.virtual_address = node_.address(kTarget);
    fields.rkey = node_.key();
    fields.dma_length = kBytes;
    fields.payload = kPayload;
    return fields;
  }
  static Bytes Frame(const wire::PathHeaders& headers,
                     const wire::PacketFields& fields) {
    Bytes frame(512);
    frame.resize(wire::EmitFrame(wire::HeaderTemplate(headers), fields, frame));
    EXPECT_FALSE(frame.empty());
    return frame;
  }
  static uint8_t* Bth(Bytes& frame) { return frame.data() + 14 + 28; }
  // Makes the ICRC right again after something behind it was changed.
  static void Seal(Bytes& frame) {
    const size_t end = frame.size() - wire::kIcrcBytes;
    const uint32_t icrc = wire::IcrcReference({frame.data() + 14, end - 14},
                                              wire::Framing::kIpv4);
    std::memcpy(frame.data() + end, &icrc, sizeof(icrc));
  }

  // --- The engine ------------------------------------------------------------

  void Run() {
    for (int i = 0; i < 3; ++i) node_.engine().Progress();
  }
  uint64_t CountOf(RxVerdict verdict) { return node_.count(verdict); }
  absl::StatusOr<Path> Resolve(uint32_t ip, Duration timeout,
                               bool roce_v1 = false) {
    return node_.engine().ResolvePath({.local = node_.gid(),
                                       .remote = wire::Gid::FromIpv4(ip),
                                       .udp_src_port = 50000,
                                       .roce_v1 = roce_v1},
                                      timeout);
  }
  void SetAddresses(const std::vector<wire::Gid>& gids) {
    Engine::ControlScope scope(node_.engine());
    node_.engine().SetAddresses(gids,
                                std::vector<uint8_t>(gids.size(), 96 + 24));
  }
  // Who asks is known: no question of ours is needed.
  void Introduce(uint32_t ip = kPeerIp) {
    Bytes frame(wire::kNeighborFrameBytes);
    frame.resize(wire::EmitSolicitation(Peer(ip), node_.gid(), {}, frame));
    Transmit(frame);
    Run();
  }
  void Connect(bool roce_v1 = false) {
    Introduce();
    auto path = Resolve(kPeerIp, Duration::Milliseconds(1), roce_v1);
    ASSERT_TRUE(path.ok()) << path.status();
    QpConfig config;
    config.dest_qpn = kPeerQpn;
    config.access = testing::kNodeRights;
    node_.Connect(*path, config);
    Received();
  }

  bool Written() {
    return std::memcmp(node_.memory() + kTarget, kPayload, kBytes) == 0;
  }
  // The frame is counted as `verdict`, once, and does nothing else; and the
  // right one is still executed and acknowledged afterwards.
  void ExpectRefused(const Bytes& frame, RxVerdict verdict) {
    const uint64_t before = CountOf(verdict);
    Transmit(frame);
    Run();
    EXPECT_EQ(CountOf(verdict), before + 1);
    EXPECT_FALSE(Written());
    EXPECT_TRUE(Received().empty());
    ExpectExecuted(Frame(Headers(), Write(0)));
  }
  void ExpectExecuted(const Bytes& frame) {
    Transmit(frame);
    Run();
    EXPECT_TRUE(Written());
    const std::vector<Bytes> answers = Received();
    ASSERT_EQ(answers.size(), 1u);
    wire::FrameView view;
    wire::RocePacket packet;
    ASSERT_EQ(wire::ParseFrame(answers[0].data(), answers[0].size(), view),
              RxVerdict::kAccept);
    wire::FrameView asked;
    ASSERT_EQ(wire::ParseFrame(frame.data(), frame.size(), asked),
              RxVerdict::kAccept);
    EXPECT_EQ(view.framing, asked.framing);
    EXPECT_TRUE(wire::VerifyIcrc(view.l3, view.framing, view.payload_bytes));
    ASSERT_EQ(wire::ParseRoce(view.payload, view.payload_bytes, packet),
              RxVerdict::kAccept);
    const wire::PacketFields ack = wire::FieldsOf(packet);
    EXPECT_EQ(ack.opcode, static_cast<uint8_t>(wire::Opcode::kRcAcknowledge));
    EXPECT_EQ(ack.dest_qp.value, kPeerQpn);
    EXPECT_EQ(ack.syndrome, wire::kAethCreditsInvalid);
  }

  static constexpr uint8_t kPayload[kBytes] = {1, 2, 3, 4, 5, 6, 7, 8};

  EngineNode node_;
  std::unique_ptr<Port> peer_;
};

// --- Packets -----------------------------------------------------------------

TEST_F(EngineWireTest, ARightWriteIsExecutedAndAcknowledged) {
  Connect();
  ExpectExecuted(Frame(Headers(), Write(0)));
  EXPECT_EQ(node_.engine().counters().ce_received, 0u);
}

TEST_F(EngineWireTest, RoceV1IsAnsweredInRoceV1) {
  Connect(/*roce_v1=*/true);
  wire::PathHeaders headers = Headers();
  headers.roce_v1 = true;
  ExpectExecuted(Frame(headers, Write(0)));
}

// The GIDs and the ICRC are right: it is the version that does not fit.
TEST_F(EngineWireTest, TheOtherVersionOfRoceIsNotThePeers) {
  Connect();
  wire::PathHeaders headers = Headers();
  headers.roce_v1 = true;
  ExpectRefused(Frame(headers, Write(0)), RxVerdict::kWrongPeer);
}

TEST_F(EngineWireTest, ARoceV1QueuePairTakesNoRoceV2) {
  Connect(/*roce_v1=*/true);
  const uint64_t before = CountOf(RxVerdict::kWrongPeer);
  Transmit(Frame(Headers(), Write(0)));
  Run();
  EXPECT_EQ(CountOf(RxVerdict::kWrongPeer), before + 1);
  EXPECT_FALSE(Written());
}

TEST_F(EngineWireTest, DamageBehindTheMaskedGrhIsAWrongIcrc) {
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
  wire::PathHeaders headers = Headers();
  headers.dst = wire::Gid::FromIpv4(kSecondIp);
  ExpectRefused(Frame(headers, Write(0)), RxVerdict::kWrongPeer);
}

TEST_F(EngineWireTest, AnUnknownQueuePairIsCountedByWhoseTheAddressIs) {
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

// The number's upper bits name the RNIC: they are compared as well.
TEST_F(EngineWireTest, ANumberThatFallsOnTheSamePlaceIsStillUnknown) {
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

// QP1 belongs to every partition of the table, which is the default one here.
TEST_F(EngineWireTest, AManagementDatagramOfAnotherPartitionIsRefused) {
  const uint8_t mad[wire::kMadBytes] = {};
  wire::PacketFields fields;
  fields.opcode = static_cast<uint8_t>(wire::Opcode::kUdSendOnly);
  fields.dest_qp = Qpn{wire::kGsiQpn};
  fields.qkey = wire::kQp1Qkey;
  fields.payload = mad;
  fields.pkey = 0x8001;
  Transmit(Frame(Headers(), fields));
  Run();
  EXPECT_EQ(CountOf(RxVerdict::kBadPkey), 1u);
  fields.pkey = 0x7fff;
  Transmit(Frame(Headers(), fields));
  Run();
  EXPECT_EQ(CountOf(RxVerdict::kNoReceive), 1u) << "nobody serves QP1";
}

constexpr uint32_t kGroupIp = 0xe1020304;

// The groups that were reported, and left, since the last look.
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

TEST_F(EngineWireTest, AQueryIsAnsweredForWhatWasJoinedOnly) {
  const wire::Gid group = wire::Gid::FromIpv4(kGroupIp);
  const std::pair<wire::Gid, uint8_t> report = {group, 0x16};
  const std::pair<wire::Gid, uint8_t> leave = {group, 0x17};
  Transmit(GeneralQuery());
  Run();
  EXPECT_EQ(CountOf(RxVerdict::kMembership), 1u);
  {
    Engine::ControlScope scope(node_.engine());
    ASSERT_TRUE(node_.engine().JoinGroup(node_.qp(), group).ok());
    // Everybody is in it, so nobody says so.
    const wire::Gid all_hosts = wire::Gid::FromIpv4(0xe0000001);
    ASSERT_TRUE(node_.engine().JoinGroup(node_.qp(), all_hosts).ok());
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
    ASSERT_TRUE(node_.engine().LeaveGroup(node_.qp(), group));
  }
  Run();
  EXPECT_EQ(Memberships(Received()), std::vector{leave});
}

TEST_F(EngineWireTest, AnyDamageBehindTheUdpHeaderIsAWrongIcrc) {
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

// The same on another length and source port: the cached part of the ICRC.
TEST_F(EngineWireTest, TheIcrcOfHeadersThatChangeIsFollowed) {
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

TEST_F(EngineWireTest, ACongestionNotificationIsCountedAndNothingMore) {
  Connect();
  wire::PacketFields fields;
  fields.opcode = static_cast<uint8_t>(wire::Opcode::kCnp);
  fields.becn = true;
  fields.dest_qp = Qpn{node_.qp().qpn()};
  const Bytes nothing(16);  // reserved bytes of a CNP
  fields.payload = nothing;
  ExpectRefused(Frame(Headers(), fields), RxVerdict::kCnp);
}

TEST_F(EngineWireTest, CongestionExperiencedIsCountedAndThePacketExecuted) {
  Connect();
  wire::PathHeaders headers = Headers();
  headers.traffic_class = wire::kEcnCongestionExperienced;
  ExpectExecuted(Frame(headers, Write(0)));
  EXPECT_EQ(node_.engine().counters().ce_received, 1u);
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

// Ethernet pads short frames: what counts is the length in the IP header.
TEST_F(EngineWireTest, BytesBehindThePacketAreIgnored) {
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

// --- Neighbours --------------------------------------------------------------

TEST_F(EngineWireTest, WhoNeverAnswersIsGivenUpAtTheDeadline) {
  const auto path = Resolve(kStrangerIp, Duration::Milliseconds(50));
  EXPECT_EQ(path.status().code(), absl::StatusCode::kDeadlineExceeded);
  // Asked more than once, for the right address, as ourselves.
  const std::vector<Bytes> questions = Received();
  EXPECT_GE(questions.size(), 2u);
  for (const Bytes& question : questions) {
    wire::FrameView view;
    wire::NeighborInfo info;
    ASSERT_EQ(wire::ParseFrame(question.data(), question.size(), view),
              RxVerdict::kArp);
    ASSERT_EQ(wire::ParseArp(view, info), RxVerdict::kArp);
    EXPECT_EQ(info.kind, wire::NeighborKind::kSolicit);
    EXPECT_EQ(info.asked, wire::Gid::FromIpv4(kStrangerIp));
    EXPECT_EQ(info.owner, node_.gid());
    EXPECT_EQ(info.owner_mac.bytes, node_.port().mac());
  }
}

TEST_F(EngineWireTest, WhoAnswersIsFound) {
  absl::StatusOr<Path> path = absl::UnknownError("");
  std::thread resolver(
      [&] { path = Resolve(kStrangerIp, Duration::Seconds(30)); });
  std::vector<Bytes> questions;
  while (questions.empty()) {
    questions = Received();
    std::this_thread::yield();
  }
  wire::FrameView view;
  wire::NeighborInfo info;
  EXPECT_EQ(wire::ParseFrame(questions[0].data(), questions[0].size(), view),
            RxVerdict::kArp);
  EXPECT_EQ(wire::ParseArp(view, info), RxVerdict::kArp);
  Bytes answer(wire::kNeighborFrameBytes);
  answer.resize(wire::EmitAdvertisement(Peer(kStrangerIp), view, info, answer));
  Transmit(answer);
  resolver.join();
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(path->headers.dst_mac().bytes, peer_->mac());
}

TEST_F(EngineWireTest, PathsThatCannotBeAreRefusedAtOnce) {
  const auto code = [&](const wire::Gid& local, const wire::Gid& remote) {
    return node_.engine()
        .ResolvePath({.local = local, .remote = remote},
                     Duration::Seconds(1000))
        .status()
        .code();
  };
  const auto ipv4 = [](uint32_t ip) { return wire::Gid::FromIpv4(ip); };
  constexpr uint8_t kIpv6[16] = {0xfd, 1};
  EXPECT_EQ(code(ipv4(kStrangerIp), ipv4(kPeerIp)),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(code(node_.gid(), ipv4(0x0a020001)),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(node_.gid(), wire::Gid::FromIpv6(kIpv6)),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(node_.gid(), ipv4(0xe0000001)), absl::StatusCode::kOk)
      << "a group needs no asking";
  EXPECT_TRUE(Received().empty()) << "nobody is asked";
}

TEST_F(EngineWireTest, WeAnswerForOurAddressAndForNoOther) {
  Introduce();
  const std::vector<Bytes> answers = Received();
  ASSERT_EQ(answers.size(), 1u);
  wire::FrameView view;
  wire::NeighborInfo info;
  ASSERT_EQ(wire::ParseFrame(answers[0].data(), answers[0].size(), view),
            RxVerdict::kArp);
  ASSERT_EQ(wire::ParseArp(view, info), RxVerdict::kArp);
  EXPECT_EQ(info.kind, wire::NeighborKind::kAdvertise);
  EXPECT_EQ(info.owner, node_.gid());
  EXPECT_EQ(info.owner_mac.bytes, node_.port().mac());

  Bytes frame(wire::kNeighborFrameBytes);
  frame.resize(wire::EmitSolicitation(Peer(), wire::Gid::FromIpv4(kStrangerIp),
                                      {}, frame));
  Transmit(frame);
  Run();
  EXPECT_TRUE(Received().empty());
  EXPECT_EQ(CountOf(RxVerdict::kNotForUs), 1u);
}

}  // namespace
}  // namespace urnic
