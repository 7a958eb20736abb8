// FPDUs follow the path: new ones fill the segments that it carries, and those
// that exist keep their boundaries. The fixture checks that no byte of the
// stream ever changes.

#include <gmock/gmock.h>

#include "transport/iwarp/qp/endpoint_fixture.h"
#include "transport/wire/ipv4.h"

namespace urnic::iwarp {
namespace {

using ::testing::SizeIs;

// The largest segment has the most payload that DDP cuts (and its headers).
constexpr uint32_t kLargest = sizeof(wire::Ipv4) + sizeof(wire::Tcp) + 12 + 2 +
                              sizeof(wire::DdpTagged) + ddp::kMaxPayloadBytes +
                              4;

class PathTest : public ::testing::Test {
 protected:
  PathTest() {
    a.tcp_config.offer.mss = b.tcp_config.offer.mss = 8960;
    link.tamper_to_b = [this](Packet& packet) { return Passes(a, packet); };
    link.tamper_to_a = [this](Packet& packet) { return Passes(b, packet); };
  }
  bool Passes(TestEnd& from, const Packet& packet) {
    const auto bytes = static_cast<uint32_t>(
        sizeof(wire::Ipv4) + wire::TcpHeaderBytes(packet.fields.options) +
        packet.payload.size());
    largest = std::max(largest, bytes);
    if (bytes <= path) return true;
    ++refused;
    if (reports) {
      from.endpoint->OnTooBig(path, packet.fields.seq, link.now);
    }
    return false;
  }
  // Moves the bytes of `source`, by a request of a.
  void Move(uint8_t opcode, TestEnd& source, uint32_t bytes) {
    TestEnd& target = &source == &a ? b : a;
    largest = 0;
    source.program.Fill(0, bytes, fill++);
    target.program.Fill(0, bytes, 0);
    const size_t before = a.program.sent.size();
    a.Post({.opcode = opcode,
            .wr_id = 1,
            .sges = {a.program.Sge(0, bytes)},
            .remote_addr = b.program.at(0),
            .rkey = b.program.key()});
    (void)link.RunUntil([&] { return a.program.sent.size() > before; });
    ASSERT_THAT(a.program.sent, SizeIs(before + 1));
    EXPECT_EQ(a.program.sent[before].status, URNIC_WC_SUCCESS);
    EXPECT_EQ(a.program.Read(0, bytes), b.program.Read(0, bytes));
    EXPECT_EQ(link.verdicts[RxVerdict::kMpaBadCrc], 0u);
  }
  void Write(uint32_t bytes) { Move(URNIC_WR_RDMA_WRITE, a, bytes); }
  void Read(uint32_t bytes) { Move(URNIC_WR_RDMA_READ, b, bytes); }

  Link link;
  TestEnd& a = link.a;
  TestEnd& b = link.b;
  uint32_t path = 9000;
  bool reports = false;
  uint32_t refused = 0;
  uint32_t largest = 0;  // packet sent
  uint8_t fill = 1;
};

TEST_F(PathTest, AReportOfARouterShrinksNewFpdusAndDividesOldOnes) {
  reports = true;
  ASSERT_TRUE(link.Connect());
  Write(60000);
  EXPECT_EQ(largest, kLargest);
  path = 1500;
  Write(60000);
  EXPECT_GT(refused, 0u);
  EXPECT_EQ(a.endpoint->path_mtu(), 1500u);
  EXPECT_EQ(a.endpoint->connection().sender().counters().timeouts, 0u);
  refused = 0;
  Write(60000);
  EXPECT_EQ(refused, 0u);
  EXPECT_EQ(largest, 1500u) << "an FPDU fills a segment";
  EXPECT_EQ(b.endpoint->path_mtu(), 9000u) << "the other direction";
}

TEST_F(PathTest, KeptFpdusAreDividedToo) {
  reports = true;
  ASSERT_TRUE(link.Connect());
  path = 1000;
  Read(60000);
  EXPECT_EQ(b.endpoint->path_mtu(), 1000u);
}

TEST_F(PathTest, ABlackHoleIsFound) {
  path = 1500;
  ASSERT_TRUE(link.Connect());
  Write(60000);
  EXPECT_LE(a.endpoint->path_mtu(), 1500u);
  refused = 0;
  Write(60000);
  EXPECT_EQ(refused, 0u);
}

TEST_F(PathTest, ALargerFpduProbesThePath) {
  a.tcp_config.path_mtu = 1500;
  ASSERT_TRUE(link.Connect());
  Write(60000);
  EXPECT_EQ(largest, 1500u);
  link.now = link.now + tcp::PathMtu::kRaiseInterval;
  Write(60000);
  EXPECT_EQ(largest, kLargest);
  EXPECT_EQ(a.endpoint->path_mtu(), kLargest);
}

TEST_F(PathTest, ALostProbeIsDividedAndReducesNothing) {
  a.tcp_config.path_mtu = path = 1500;
  a.setup.markers = b.setup.markers = true;
  ASSERT_TRUE(link.Connect());
  Write(60000);
  link.now = link.now + tcp::PathMtu::kRaiseInterval;
  Write(60000);
  EXPECT_GT(refused, 0u);
  EXPECT_EQ(a.endpoint->path_mtu(), 1500u);
  const tcp::SenderCounters& counters =
      a.endpoint->connection().sender().counters();
  EXPECT_EQ(counters.timeouts, 0u);
  EXPECT_EQ(counters.recoveries, 0u);
}

}  // namespace
}  // namespace urnic::iwarp
