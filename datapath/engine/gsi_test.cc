// QP1: management datagrams find their path, wait for it, and follow a peer
// that has moved.

#include "datapath/engine/gsi.h"

#include <optional>

#include "datapath/engine/engine.h"
#include "datapath/engine/engine_wire_fixture.h"
#include "datapath/engine/network.h"
#include "transport/net/mad_handler.h"
#include "transport/wire/mad.h"

namespace urnic {
namespace {

constexpr uint32_t kFarIp = 0x0a020001;  // not on a link of ours
constexpr uint16_t kFarPort = 50123;

class KeepsMads : public net::MadHandler {
 public:
  RxVerdict OnMad(std::span<const uint8_t> mad, const net::PathQuery& from,
                  Time) override {
    last_mad.assign(mad.begin(), mad.end());
    last_from = from;
    return RxVerdict::kAccept;
  }
  Time NextDeadline() const override { return Time::Infinite(); }
  void OnTimer(Time) override {}
  bool IsQpnBusy(Qpn) const override { return false; }

  Bytes last_mad;
  std::optional<net::PathQuery> last_from;
};

class GsiTest : public EngineWireTest {
 protected:
  GsiTest() {
    Engine::ControlScope scope(node_.engine());
    node_.network().gsi().Serve(wire::kMadClassCm, &handler_);
  }
  ~GsiTest() override {
    Engine::ControlScope scope(node_.engine());
    node_.network().gsi().Serve(wire::kMadClassCm, nullptr);
  }

  static Bytes Mad(uint8_t mark) {
    Bytes mad(wire::kMadBytes);
    mad[offsetof(wire::MadHeader, management_class)] = wire::kMadClassCm;
    mad.back() = mark;
    return mad;
  }
  void Send(const net::PathQuery& to, uint8_t mark) {
    Engine::ControlScope scope(node_.engine());
    node_.network().gsi().Send(to, Mad(mark), node_.engine().Now());
  }
  net::PathQuery To(uint32_t ip) const {
    return {.local = node_.gid(), .remote = wire::Gid::FromIpv4(ip)};
  }
  // A MAD arrives from `ip`, behind the peer's MAC.
  void Hear(uint32_t ip, uint8_t mark) {
    wire::PathHeaders headers = Headers();
    headers.src = wire::Gid::FromIpv4(ip);
    headers.udp_src_port = kFarPort;
    wire::PacketFields fields;
    fields.opcode = static_cast<uint8_t>(wire::Opcode::kUdSendOnly);
    fields.dest_qp = Qpn{wire::kGsiQpn};
    fields.src_qp = Qpn{wire::kGsiQpn};
    fields.qkey = wire::kQp1Qkey;
    const Bytes mad = Mad(mark);
    fields.payload = mad;
    Transmit(Frame(headers, fields));
    Run();
  }
  struct Sent {
    wire::MacAddress mac;
    wire::Gid to;
    uint16_t udp_src_port;
  };
  // The destination of the MAD with this mark; none: no frame has it.
  static std::optional<Sent> FindMad(const std::vector<Bytes>& frames,
                                     uint8_t mark) {
    for (const Bytes& frame : frames) {
      wire::FrameView view;
      wire::RocePacket packet;
      if (wire::ParseFrame(frame.data(), frame.size(), view) ==
              RxVerdict::kAccept &&
          wire::ParseRoce(view.payload, view.payload_bytes, packet) ==
              RxVerdict::kAccept &&
          packet.payload_bytes == wire::kMadBytes &&
          packet.payload[wire::kMadBytes - 1] == mark) {
        return Sent{view.eth->dst, view.dst, view.udp_src_port};
      }
    }
    return std::nullopt;
  }
  void Answer(const Bytes& question, uint32_t ip) {
    wire::FrameView view;
    wire::NeighborInfo info;
    ASSERT_EQ(wire::ParseFrame(question.data(), question.size(), view),
              RxVerdict::kArp);
    ASSERT_EQ(wire::ParseArp(view, info), RxVerdict::kArp);
    EXPECT_EQ(info.asked, wire::Gid::FromIpv4(ip));
    Bytes answer(wire::kNeighborFrameBytes);
    answer.resize(wire::EmitAdvertisement(Peer(ip), view, info, answer));
    Transmit(answer);
    Run();
  }

  KeepsMads handler_;
};

TEST_F(GsiTest, AMadWaitsUntilItsPeerIsFound) {
  Send(To(kStrangerIp), 1);
  Send(To(kStrangerIp), 2);
  const std::vector<Bytes> questions = Received();
  ASSERT_EQ(questions.size(), 1u) << "one question, and no MAD";
  Answer(questions[0], kStrangerIp);
  const std::vector<Bytes> sent = Received();
  EXPECT_EQ(sent.size(), 2u);
  for (const uint8_t mark : {1, 2}) {
    const auto went = FindMad(sent, mark);
    ASSERT_TRUE(went.has_value());
    EXPECT_EQ(went->mac, peer_->mac());
    EXPECT_EQ(went->to, wire::Gid::FromIpv4(kStrangerIp));
  }
  // Now the path is known.
  Send(To(kStrangerIp), 3);
  EXPECT_TRUE(FindMad(Received(), 3).has_value());
}

TEST_F(GsiTest, MadsBeyondTheLimitAreLost) {
  for (size_t i = 0; i < GsiPort::kAskedMax + 10; ++i) Send(To(kStrangerIp), 1);
  const std::vector<Bytes> questions = Received();
  ASSERT_FALSE(questions.empty());
  Answer(questions[0], kStrangerIp);
  size_t sent = 0;
  for (int i = 0; i < 1000 && sent < GsiPort::kAskedMax; ++i) {
    sent += Received().size();
    Run();
  }
  EXPECT_EQ(sent, GsiPort::kAskedMax);
  EXPECT_EQ(node_.engine().counters().tx_mads_lost, 10u);
  Run();
  EXPECT_TRUE(Received().empty());
}

TEST_F(GsiTest, AnAnswerIsSentBackWithoutARoute) {
  Send(To(kFarIp), 1);
  Run();
  EXPECT_TRUE(Received().empty()) << "there is no way, and nobody to ask";
  Hear(kFarIp, 7);
  ASSERT_TRUE(handler_.last_from.has_value());
  EXPECT_EQ(handler_.last_mad, Mad(7));
  EXPECT_EQ(handler_.last_from->local, node_.gid());
  EXPECT_EQ(handler_.last_from->remote, wire::Gid::FromIpv4(kFarIp));
  EXPECT_EQ(handler_.last_from->pkey, 0xffff);
  Send(*handler_.last_from, 8);
  const auto went = FindMad(Received(), 8);
  ASSERT_TRUE(went.has_value());
  EXPECT_EQ(went->mac, peer_->mac());
  EXPECT_EQ(went->to, wire::Gid::FromIpv4(kFarIp));
  EXPECT_EQ(went->udp_src_port, kFarPort);
}

// Another NIC has taken over the address of the peer that asked us.
TEST_F(GsiTest, MadsFollowANeighborThatHasMoved) {
  Hear(kPeerIp, 1);
  ASSERT_TRUE(handler_.last_from.has_value());
  Send(*handler_.last_from, 2);
  auto went = FindMad(Received(), 2);
  ASSERT_TRUE(went.has_value());
  EXPECT_EQ(went->mac, peer_->mac());
  wire::NeighborSelf moved = Peer();
  moved.mac.bytes[5] ^= 0x55;
  Bytes frame(wire::kNeighborFrameBytes);
  frame.resize(wire::EmitAnnouncement(moved, frame));
  Transmit(frame);
  // The probes to the old MAC are not answered.
  do {
    Run();
    Send(*handler_.last_from, 3);
    went = FindMad(Received(), 3);
    ASSERT_TRUE(went.has_value());
  } while (went->mac == peer_->mac());
  EXPECT_EQ(went->mac, moved.mac);
}

}  // namespace
}  // namespace urnic
