// The operator's choices between two engines at the ends of a ring.

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "datapath/engine/engine.h"
#include "tests/support/iwarp_node.h"

namespace urnic {
namespace {

using testing::IwarpNode;
using testing::IwarpPair;
using testing::SendWr;
using Program = IwarpNode::Program;

constexpr size_t kTarget = 512 << 10;
constexpr uint32_t kBytes = 256 << 10;

// Writes of kBytes from `a` to `b`, and a send behind them in each direction:
// all bytes arrive.
void Exchange(IwarpPair& pair, Program& from, Program& to, int writes) {
  IwarpNode& a = pair.a;
  IwarpNode& b = pair.b;
  for (size_t i = 0; i < kBytes; ++i) {
    a.memory()[i] = static_cast<uint8_t>(i * 7 + (i >> 8));
  }
  std::memset(b.memory() + kTarget, 0, kBytes);
  ASSERT_TRUE(a.PostReceive(from, {.sges = {a.Sge(kTarget, 4096)}}));
  ASSERT_TRUE(b.PostReceive(to, {.sges = {b.Sge(0, 4096)}}));
  for (int i = 0; i < writes; ++i) {
    SendWr wr = {.opcode = URNIC_WR_RDMA_WRITE,
                 .remote_addr = b.address(kTarget)};
    wr.rkey = b.key();
    wr.sges = {a.Sge(0, kBytes)};
    ASSERT_TRUE(a.PostSend(from, wr));
  }
  ASSERT_TRUE(a.PostSend(from, {.sges = {a.Sge(0, 4096)}}));
  ASSERT_TRUE(pair.RunUntil([&] { return !b.done.empty(); }));
  ASSERT_TRUE(b.PostSend(to, {.sges = {b.Sge(kTarget, 4096)}}));
  const size_t at_a = static_cast<size_t>(writes) + 2;
  ASSERT_TRUE(pair.RunUntil([&] { return a.done.size() == at_a; }));
  for (const urnic_cqe& done : a.done) EXPECT_EQ(done.status, 0);
  EXPECT_EQ(std::memcmp(b.memory() + kTarget, a.memory(), kBytes), 0);
  EXPECT_EQ(std::memcmp(a.memory() + kTarget, a.memory(), 4096), 0);
}

const mpa::Agreement& AgreementOf(const Program& program) {
  return program.qp->connection()->endpoint().set_up().agreement();
}

//= RFC 5044 7.1.1
TEST(IwarpOptionsTest, MarkersGoInTheDirectionThatAsksForThem) {
  for (const bool at_b : {true, false}) {
    IwarpPair pair("iwm");
    (at_b ? pair.b : pair.a).setup.markers = true;
    Program& from = pair.a.Create();
    Program& to = pair.b.Create();
    ASSERT_TRUE(pair.Connect(from, to));
    EXPECT_EQ(AgreementOf(from).send_markers, at_b);
    EXPECT_EQ(AgreementOf(to).send_markers, !at_b);
    Exchange(pair, from, to, 2);
    EXPECT_EQ(pair.b.count(RxVerdict::kMpaBadMarker), 0u);
    EXPECT_EQ(pair.a.count(RxVerdict::kMpaBadMarker), 0u);
  }
}

// A slow wire that marks packets above a short queue, and would drop them only
// above a long one.
constexpr const char* kMarkingWire =
    "rate=500Mbit,buffer=8MB,red=8KB:24KB:100%";

tcp::SenderCounters Sent(const Program& program) {
  return program.qp->connection()->endpoint().connection().sender().counters();
}

class EcnTest : public ::testing::TestWithParam<iwarp::Ecn> {};

//= RFC 3168 6.1.2, RFC 8257 3.3
TEST_P(EcnTest, MarksSlowTheSenderDownWithoutALoss) {
  IwarpPair pair("iwe", {.fault = kMarkingWire, .iwarp = {.ecn = GetParam()}});
  Program& from = pair.a.Create();
  Program& to = pair.b.Create();
  ASSERT_TRUE(pair.Connect(from, to));
  const tcp::Connection& tcp = from.qp->connection()->endpoint().connection();
  ASSERT_TRUE(tcp.agreed().ecn);
  EXPECT_EQ(tcp.sender().cc.algorithm == cc::TcpAlgorithm::kDctcp,
            GetParam() == iwarp::Ecn::kDctcp);
  Exchange(pair, from, to, 8);
  EXPECT_GT(pair.b.engine().counters().ce_received, 0u);
  EXPECT_GT(Sent(from).ecn_reductions, 0u);
  // On a busy machine an acknowledgement may come after a tail loss probe.
  EXPECT_LE(Sent(from).retransmissions, Sent(from).tail_probes);
}

INSTANTIATE_TEST_SUITE_P(Modes, EcnTest,
                         ::testing::Values(iwarp::Ecn::kClassic,
                                           iwarp::Ecn::kDctcp));

// Without a negotiation of ECN, segments are not ECN-capable.
TEST(IwarpOptionsTest, WithoutEcnNothingIsMarked) {
  IwarpPair pair("iwo", {.fault = kMarkingWire});
  Program& from = pair.a.Create();
  Program& to = pair.b.Create();
  ASSERT_TRUE(pair.Connect(from, to));
  Exchange(pair, from, to, 2);
  EXPECT_EQ(pair.b.engine().counters().ce_received, 0u);
  EXPECT_EQ(Sent(from).ecn_reductions, 0u);
}

}  // namespace
}  // namespace urnic
