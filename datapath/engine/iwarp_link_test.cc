// Connections between two engines at the ends of a ring whose MTU changes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "datapath/engine/engine.h"
#include "tests/support/iwarp_node.h"

namespace urnic {
namespace {

using testing::IwarpNode;
using testing::IwarpPair;
using testing::SendWr;
using Program = IwarpNode::Program;

constexpr uint32_t kWrites = 8;
constexpr uint32_t kBytes = 256 << 10;

class IwarpLinkTest : public ::testing::Test {
 protected:
  IwarpLinkTest() : pair_("iwl", {.link_mtu = &link_mtu_}) {}

  static const tcp::Connection& TcpOf(const Program& program) {
    return program.qp->connection()->endpoint().connection();
  }
  void PostWrites(Program& from) {
    for (uint32_t i = 0; i < kWrites; ++i) {
      SendWr wr = {.opcode = URNIC_WR_RDMA_WRITE,
                   .remote_addr = pair_.b.address(512 << 10)};
      wr.rkey = pair_.b.key();
      wr.sges = {pair_.a.Sge(0, kBytes)};
      ASSERT_TRUE(pair_.a.PostSend(from, wr));
    }
  }
  [[nodiscard]] bool AllAreDone() {
    const bool done =
        pair_.RunUntil([&] { return pair_.a.done.size() == kWrites; });
    for (const urnic_cqe& cqe : pair_.a.done) EXPECT_EQ(cqe.status, 0);
    pair_.a.done.clear();
    return done;
  }

  uint32_t link_mtu_ = 1500;
  IwarpPair pair_;
};

//= RFC 9293 3.7.1
TEST_F(IwarpLinkTest, LiveConnectionsObeyTheMtuOfTheLinkAtOnce) {
  Program& from = pair_.a.Create();
  Program& to = pair_.b.Create();
  ASSERT_TRUE(pair_.Connect(from, to));
  Program& idle = pair_.a.Create();
  Program& idle_too = pair_.b.Create();
  ASSERT_TRUE(pair_.Connect(idle, idle_too, 2001));
  EXPECT_EQ(TcpOf(from).path_mtu(), 1500u);
  PostWrites(from);
  ASSERT_TRUE(pair_.RunUntil([&] {
    return TcpOf(from).sender().una() != TcpOf(from).sender().nxt();
  }));
  link_mtu_ = 1000;
  pair_.Step();
  for (const Program* program : {&from, &to, &idle, &idle_too}) {
    EXPECT_EQ(TcpOf(*program).path_mtu(), 1000u);
  }
  EXPECT_LT(TcpOf(from).sender().mss(), 1000u);
  EXPECT_TRUE(AllAreDone());
  EXPECT_EQ(TcpOf(from).sender().counters().timeouts, 0u);
  EXPECT_EQ(pair_.a.engine().counters().path_mtu_shrunk, 0u)
      << "it is not the path";
}

TEST_F(IwarpLinkTest, AnMtuThatGrowsAgainIsTriedAtOnce) {
  Program& from = pair_.a.Create();
  Program& to = pair_.b.Create();
  ASSERT_TRUE(pair_.Connect(from, to));
  for (const uint32_t mtu : {900u, 1500u, 700u, 1200u, 5000u}) {
    link_mtu_ = mtu;
    PostWrites(from);
    ASSERT_TRUE(AllAreDone());
    EXPECT_EQ(TcpOf(from).path_mtu(), std::min(mtu, 1500u));
  }
}

}  // namespace
}  // namespace urnic
