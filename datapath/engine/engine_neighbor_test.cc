// The engine and its neighbours: resolution, announcements, moves.

#include "datapath/engine/engine.h"
#include "datapath/engine/engine_wire_fixture.h"
#include "datapath/engine/environment.h"
#include "datapath/engine/network.h"

namespace urnic {
namespace {

class EngineNeighborTest : public EngineWireTest {};

TEST_F(EngineNeighborTest, ANeighborThatNeverAnswersIsGivenUpAtTheDeadline) {
  const auto path = Resolve(kStrangerIp, Duration::Milliseconds(50));
  EXPECT_EQ(path.status().code(), absl::StatusCode::kDeadlineExceeded);
  // The engine asks more than once, for the right address, from its own.
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
    EXPECT_EQ(info.owner_mac, node_.port().mac());
  }
}

TEST_F(EngineNeighborTest, ANeighborThatAnswersIsFound) {
  absl::StatusOr<net::Path> path = absl::UnknownError("");
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
  EXPECT_EQ(path->headers.dst_mac(), peer_->mac());
}

// Another NIC has taken over the peer's address and announces it. The
// connections follow after the old NIC has left three probes unanswered.
TEST_F(EngineNeighborTest, AConnectionFollowsANeighborThatHasMoved) {
  Connect();
  const wire::MacAddress before = node_.qp().path.headers.dst_mac();
  wire::NeighborSelf moved = Peer();
  moved.mac.bytes[5] ^= 0x55;
  Bytes frame(wire::kNeighborFrameBytes);
  frame.resize(wire::EmitAnnouncement(moved, frame));
  Transmit(frame);
  Run();
  EXPECT_EQ(node_.qp().path.headers.dst_mac(), before) << "nobody was asked";
  // The probes are not answered.
  do {
    Run();
    node_.RingSend(0);
  } while (node_.qp().path.IsCurrent());
  node_.rings().PostSend({.sges = {node_.Sge(0, kBytes)}});
  node_.engine().Doorbell(node_.qp());
  EXPECT_EQ(node_.qp().path.headers.dst_mac(), moved.mac);
  const std::vector<Bytes> sent = Received();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(std::memcmp(sent.back().data(), moved.mac.bytes.data(), 6), 0);
}

// The announcement is spoofed: the neighbour is still there and answers.
TEST_F(EngineNeighborTest, ASpoofedAnnouncementMovesNoConnection) {
  Connect();
  wire::NeighborSelf spoofer = Peer();
  spoofer.mac.bytes[5] ^= 0x55;
  Bytes frame(wire::kNeighborFrameBytes);
  frame.resize(wire::EmitAnnouncement(spoofer, frame));
  Transmit(frame);
  int answered = 0;
  while (answered == 0) {
    Run();
    for (const Bytes& question : Received()) {
      wire::FrameView view;
      wire::NeighborInfo info;
      if (wire::ParseFrame(question.data(), question.size(), view) !=
              RxVerdict::kArp ||
          wire::ParseArp(view, info) != RxVerdict::kArp) {
        continue;
      }
      EXPECT_EQ(std::memcmp(question.data(), peer_->mac().bytes.data(), 6), 0)
          << "a probe goes to the old place, by itself";
      Bytes answer(wire::kNeighborFrameBytes);
      answer.resize(wire::EmitAdvertisement(Peer(), view, info, answer));
      Transmit(answer);
      ++answered;
    }
  }
  const Time end = Environment::Now() + Duration::Milliseconds(40);
  while (Environment::Now() < end) Run();
  EXPECT_TRUE(node_.qp().path.IsCurrent());
  EXPECT_EQ(node_.qp().path.headers.dst_mac(), peer_->mac());
}

// The neighbour does not answer: it may have moved without an announcement.
TEST_F(EngineNeighborTest, ASilentNeighborIsProbed) {
  Connect();
  {
    Engine::ControlScope scope(node_.engine());
    QpConfig config = node_.qp().config();
    config.timeout = Duration::Milliseconds(5);
    node_.qp().Reconfigure(config);
  }
  ASSERT_EQ(SentOf(1), 1u);
  const auto probes = [&] {
    int count = 0;
    for (const Bytes& frame : Received()) {
      wire::FrameView view;
      count += wire::ParseFrame(frame.data(), frame.size(), view) ==
                   RxVerdict::kArp &&
               std::memcmp(frame.data(), peer_->mac().bytes.data(), 6) == 0;
    }
    return count;
  };
  int before = 0;
  while (node_.qp().counters().timeouts == 0) {
    before += probes();
    Run();
  }
  EXPECT_EQ(before, 0) << "asked before the time-out";
  int after = probes();
  const Time end = Environment::Now() + Duration::Seconds(1);
  while (after == 0 && Environment::Now() < end) {
    Run();
    after += probes();
  }
  EXPECT_GT(after, 0);
}

// A neighbour in doubt is probed, and no new path uses it. An acknowledgement
// of our packets confirms it as well as an answer to a probe.
TEST_F(EngineNeighborTest, AnAcknowledgementConfirmsTheNeighbor) {
  Connect();
  ASSERT_EQ(SentOf(1), 1u);
  {
    Engine::ControlScope scope(node_.engine());
    node_.network().Suspect(node_.qp().path, Environment::Now());
  }
  EXPECT_FALSE(Resolve(kPeerIp, Duration::Milliseconds(1)).ok());
  wire::PacketFields ack;
  ack.opcode = static_cast<uint8_t>(wire::Opcode::kRcAcknowledge);
  ack.dest_qp = Qpn{node_.qp().qpn()};
  ack.syndrome = wire::kAethCreditsInvalid;
  Transmit(Frame(Headers(), ack));
  // The probes are not answered.
  const Time end = Environment::Now() + Duration::Milliseconds(50);
  while (Environment::Now() < end) Run();
  EXPECT_TRUE(Resolve(kPeerIp, Duration::Milliseconds(1)).ok());
}

TEST_F(EngineNeighborTest, ImpossiblePathsAreRefusedImmediately) {
  const auto code = [&](const wire::Gid& local, const wire::Gid& remote) {
    return node_.nic()
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

TEST_F(EngineNeighborTest, OnlyQuestionsForOurAddressAreAnswered) {
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
  EXPECT_EQ(info.owner_mac, node_.port().mac());

  Bytes frame(wire::kNeighborFrameBytes);
  frame.resize(wire::EmitSolicitation(Peer(), wire::Gid::FromIpv4(kStrangerIp),
                                      {}, frame));
  Transmit(frame);
  Run();
  EXPECT_TRUE(Received().empty());
  EXPECT_EQ(CountOf(RxVerdict::kNotForUs), 1u);
}

TEST_F(EngineNeighborTest, ANewAddressIsAnnounced) {
  const auto announced = [&] {
    Run();
    std::vector<wire::Gid> owners;
    for (const Bytes& frame : Received()) {
      wire::FrameView view;
      wire::NeighborInfo info;
      EXPECT_EQ(wire::ParseFrame(frame.data(), frame.size(), view),
                RxVerdict::kArp);
      EXPECT_EQ(wire::ParseArp(view, info), RxVerdict::kArp);
      EXPECT_EQ(info.owner_mac, node_.port().mac());
      EXPECT_TRUE(view.eth->dst.is_group());
      owners.push_back(info.owner);
    }
    return owners;
  };
  const wire::Gid second = wire::Gid::FromIpv4(kSecondIp);
  SetAddresses({node_.gid(), second});
  EXPECT_EQ(announced(), (std::vector<wire::Gid>{node_.gid(), second}));
  SetAddresses({node_.gid()});
  EXPECT_TRUE(announced().empty()) << "nothing is new";
}

}  // namespace
}  // namespace urnic
