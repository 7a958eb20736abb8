// Linux' siw as the peer, in both roles: what its captures contain goes through
// a whole endpoint. TCP's numbers are our own.

#include <gmock/gmock.h>

#include <string>

#include "tests/support/iwarp_capture.h"
#include "tests/support/pcap.h"
#include "transport/iwarp/qp/endpoint_fixture.h"

namespace urnic::iwarp {
namespace {

using urnic::testing::IwarpCapture;
using urnic::testing::IwarpUnit;
using Kind = IwarpUnit::Kind;

struct Capture {
  const char* name;
  uint8_t revision = 2;
  bool crc = true;
  bool peer_to_peer = false;
  bool rejected = false;
  uint16_t depth = 1;
};

constexpr Capture kCaptures[] = {
    {.name = "siw_rping_crc"},
    {.name = "siw_rping_nocrc", .crc = false},
    {.name = "siw_rping_mpa_rev1", .revision = 1, .crc = false},
    {.name = "siw_rping_p2p_rtr", .crc = false, .peer_to_peer = true},
    {.name = "siw_ucmatose_nocrc", .crc = false},
    {.name = "siw_ops_crc", .depth = 4},
    {.name = "siw_reject_app", .rejected = true, .depth = 4},
};

class SiwTest : public ::testing::TestWithParam<Capture> {
 protected:
  SiwTest() {
    const auto file = urnic::testing::ReadPcap(
        std::string("transport/wire/testdata/") + GetParam().name + ".pcap");
    EXPECT_EQ(file.error, "");
    capture_ = urnic::testing::ReadIwarpCapture(file);
    EXPECT_EQ(capture_.error, "");
    end.setup.revision = GetParam().revision;
    end.setup.crc = GetParam().crc;
    end.setup.peer_to_peer = GetParam().peer_to_peer;
    // siw has no empty FPDU.
    end.setup.rtr_kinds = mpa::kRtrWrite | mpa::kRtrRead;
    end.setup.ird = end.setup.ord = GetParam().depth;
    end.config.ird = end.config.ord = GetParam().depth;
    for (uint64_t i = 0; i < 8; ++i) {
      EXPECT_TRUE(end.program.Recv(i, {end.program.Sge(i * 8192, 8192)}));
    }
  }
  const Bytes& First(Kind kind) const {
    return std::ranges::find(capture_.units, kind, &IwarpUnit::kind)->bytes;
  }

  wire::TcpFields Fields(uint8_t flags) const {
    wire::TcpFields fields;
    fields.src_port = 2;
    fields.dst_port = 1;
    fields.seq = seq_;
    fields.ack = ack_;
    fields.flags = flags;
    fields.window = 65535;
    return fields;
  }
  // siw accepts our connection, or makes one to us.
  void ConnectToSiw() {
    end.Connect(now_);
    ack_ = end.Transmit(now_).at(0).fields.seq + 1;
    Packet answer = {Fields(wire::kTcpSyn | wire::kTcpAck), {}};
    answer.fields.options.mss = 1460;
    ASSERT_EQ(end.Deliver(answer, now_), RxVerdict::kAccept);
    seq_ = seq_ + 1;
  }
  void ConnectFromSiw() {
    tcp::ChallengeBudget challenges(kTestKey, 1000);
    tcp::HalfOpenTable listener(kTestKey, 8, &challenges);
    const tcp::FourTuple tuple = {{}, {}, 1, 2};
    wire::TcpSegment segment;
    static_cast<wire::TcpFields&>(segment) = Fields(wire::kTcpSyn);
    segment.options.mss = 1460;
    ack_ = listener.OnSyn(tuple, segment, {}, end.tcp_config.window_bytes, now_)
               .seq +
           1;
    seq_ = seq_ + 1;
    segment = {};
    static_cast<wire::TcpFields&>(segment) = Fields(wire::kTcpAck);
    const auto accepted = listener.OnSegment(tuple, segment, now_).accepted;
    ASSERT_TRUE(accepted.has_value());
    end.Open(*accepted, now_);
    ASSERT_EQ(end.Deliver({Fields(wire::kTcpAck), {}}, now_),
              RxVerdict::kAccept);
  }
  RxVerdict Give(const Bytes& bytes) {
    const Packet packet = {Fields(wire::kTcpAck), bytes};
    seq_ = seq_ + static_cast<uint32_t>(bytes.size());
    return end.Deliver(packet, now_);
  }
  // The payload of what the endpoint sends.
  Bytes Sent() {
    Bytes sent;
    for (const Packet& packet : end.Transmit(now_)) {
      sent.insert(sent.end(), packet.payload.begin(), packet.payload.end());
    }
    ack_ = ack_ + static_cast<uint32_t>(sent.size());
    return sent;
  }
  // Siw's sends, and their number, up to its first message of another kind.
  void GiveSends(bool from_initiator) {
    for (const IwarpUnit& unit : capture_.units) {
      if (unit.kind != Kind::kFpdu || unit.connection != 0 ||
          unit.from_initiator != from_initiator) {
        continue;
      }
      const Bytes ulpdu = unit.ulpdu();
      // In the peer-to-peer model, an empty write comes first.
      const bool ready = from_initiator && GetParam().peer_to_peer &&
                         sends_ == 0 && ulpdu.size() == 14;
      const int opcode = ulpdu.at(1) & wire::kRdmapOpcodeMask;
      const bool send = opcode == int(wire::RdmapOpcode::kSend) ||
                        opcode == int(wire::RdmapOpcode::kSendSolicited);
      if (!send && !ready) break;
      EXPECT_EQ(Give(unit.bytes), RxVerdict::kAccept);
      sends_ += send && (ulpdu[0] & wire::kDdpLast) != 0;
    }
  }

  Time now_ = Time::FromNs(1'000'000'000);
  IwarpCapture capture_;
  TestEnd end{0x11, 1, 2};
  size_t sends_ = 0;

 private:
  SeqNum seq_{5000};
  SeqNum ack_;
};

//= RFC 5044 7.1.1, RFC 6581 6
TEST_P(SiwTest, WeConnectToSiw) {
  ConnectToSiw();
  EXPECT_EQ(Sent(), First(Kind::kRequest));
  EXPECT_EQ(Give(First(Kind::kReply)), RxVerdict::kAccept);
  ASSERT_EQ(end.events.size(), 1u);
  if (GetParam().rejected) {
    EXPECT_EQ(end.events[0], Event::kRejected);
    return;
  }
  EXPECT_EQ(end.events[0], Event::kConnected);
  // Siw may not be ready yet.
  EXPECT_TRUE(Sent().empty());
  now_ = now_ + Duration::Milliseconds(10);
  end.OnTimer(now_);
  EXPECT_EQ(Sent().empty(), !GetParam().peer_to_peer);
  GiveSends(/*from_initiator=*/false);
  EXPECT_EQ(end.program.received.size(), sends_);
}

//= RFC 5044 7.1.1, RFC 6581 6
TEST_P(SiwTest, SiwConnectsToUs) {
  end.accepts = !GetParam().rejected;
  ConnectFromSiw();
  EXPECT_EQ(Give(First(Kind::kRequest)), RxVerdict::kAccept);
  EXPECT_TRUE(end.has(Event::kRequest));
  if (GetParam().rejected) {
    EXPECT_TRUE(end.endpoint->Reject({}, now_));
  }
  EXPECT_EQ(Sent(), First(Kind::kReply));
  if (GetParam().rejected) return;
  GiveSends(/*from_initiator=*/true);
  EXPECT_TRUE(end.has(Event::kConnected));
  EXPECT_EQ(end.program.received.size(), sends_);
  EXPECT_GT(sends_, 0u);
}

INSTANTIATE_TEST_SUITE_P(Captures, SiwTest, ::testing::ValuesIn(kCaptures),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace urnic::iwarp
