// An engine whose port has no room, because the peer does not fetch frames.
// Loopback queue pairs continue. When the engine ends, it must still send the
// last packets of completed requests, and the responses: a program ends when it
// has its completions, and its peer must not wait forever.

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "datapath/engine/engine.h"
#include "datapath/engine/qp_table.h"
#include "datapath/guest/eal.h"
#include "datapath/port/wrapped_port.h"
#include "tests/support/engine_node.h"

namespace urnic {
namespace {

using testing::EngineNode;
using testing::NodePair;
using testing::SendWr;

// Sends frames that are not packets until the port accepts no more.
void FillPort(Port& port) {
  TakeLcore(port.lcore());
  for (bool room = true; room;) {
    rte_mbuf* frame = rte_pktmbuf_alloc(port.pool());
    ASSERT_NE(frame, nullptr);
    std::memset(rte_pktmbuf_append(frame, 64), 0, 64);
    room = port.Transmit(&frame, 1) == 1;
    if (!room) rte_pktmbuf_free(frame);
  }
  ReleaseLcore();
}

SendWr Write(EngineNode& from, EngineNode& to) {
  SendWr wr;
  wr.opcode = URNIC_WR_RDMA_WRITE;
  wr.wr_id = 1;
  wr.sges = {from.Sge(0, 8)};
  wr.remote_addr = to.address(4096);
  wr.rkey = to.key();
  return wr;
}

TEST(FullPortTest, AQueuePairThatTalksToItselfContinues) {
  NodePair pair("full");
  EngineNode& a = pair.a;
  FillPort(a.port());
  ASSERT_TRUE(a.rings().PostSend(Write(a, pair.b)));
  a.engine().Doorbell(a.qp());
  {
    Engine::ControlScope scope(a.engine());
    a.engine().qps().Modify(a.qp(), QpState::kReset, a.qp().config());
  }
  const auto path = a.nic().ResolvePath(
      {.local = a.gid(), .remote = a.gid(), .udp_src_port = 50000},
      Duration::Milliseconds(1));
  ASSERT_TRUE(path.ok());
  QpConfig config = a.qp().config();
  config.dest_qpn = a.qp().qpn();
  a.Connect(*path, config);
  std::memcpy(a.memory(), "from a..", 8);
  ASSERT_TRUE(a.rings().PostSend(Write(a, a)));
  a.engine().Doorbell(a.qp());
  urnic_cqe cqe = {};
  for (int i = 0; i < 100 && !a.Poll(cqe); ++i) a.engine().Progress();
  EXPECT_EQ(cqe.opcode, URNIC_WC_RDMA_WRITE);
  EXPECT_EQ(cqe.status, URNIC_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(a.memory() + 4096, "from a..", 8), 0);
}

// Its requests are repeated after 20 ms, and only `retries` times.
void MakeImpatient(EngineNode& node, uint8_t retries = 0) {
  QpConfig config = node.qp().config();
  config.timeout = Duration::Milliseconds(20);
  config.retry_count = retries;
  Engine::ControlScope scope(node.engine());
  node.qp().Reconfigure(config);
}

void RunFor(EngineNode& node, Duration time) {
  const Time end = node.engine().Now() + time;
  while (node.engine().Now() < end) node.engine().Progress();
}

TEST(FullPortTest, APeerIsNotGivenUpWhileThePortTakesNothing) {
  NodePair pair("patient");
  MakeImpatient(pair.a, /*retries=*/2);
  FillPort(pair.a.port());
  ASSERT_TRUE(pair.a.rings().PostSend(Write(pair.a, pair.b)));
  pair.a.engine().Doorbell(pair.a.qp());
  RunFor(pair.a, Duration::Milliseconds(300));
  urnic_cqe cqe = {};
  EXPECT_FALSE(pair.a.Poll(cqe));
  // The peer fetches again.
  for (int i = 0; i < 10'000 && !pair.a.Poll(cqe); ++i) {
    pair.b.engine().Progress();
    pair.a.engine().Progress();
  }
  EXPECT_EQ(cqe.opcode, URNIC_WC_RDMA_WRITE);
  EXPECT_EQ(cqe.status, URNIC_WC_SUCCESS);
}

TEST(FullPortTest, APeerIsNotGivenUpDuringAnOutage) {
  NodePair pair("outage");
  const auto set_outage = [&](bool outage) {
    Engine::ControlScope scope(pair.a.engine());
    pair.a.engine().SetOutage(outage);
  };
  MakeImpatient(pair.a);
  set_outage(true);
  ASSERT_TRUE(pair.a.rings().PostSend(Write(pair.a, pair.b)));
  pair.a.engine().Doorbell(pair.a.qp());
  RunFor(pair.a, Duration::Milliseconds(300));
  urnic_cqe cqe = {};
  EXPECT_FALSE(pair.a.Poll(cqe));
  set_outage(false);
  RunFor(pair.a, Duration::Milliseconds(300));
  ASSERT_TRUE(pair.a.Poll(cqe));
  EXPECT_EQ(cqe.status, URNIC_WC_RETRY_EXC_ERR) << "now time counts";
}

// A port that accepts no frames until its device is replaced.
class StuckPort final : public WrappedPort {
 public:
  explicit StuckPort(std::unique_ptr<Port> port)
      : WrappedPort(std::move(port)) {}
  uint16_t Transmit(rte_mbuf** packets, uint16_t count) override {
    return is_stuck ? 0 : port_->Transmit(packets, count);
  }
  bool ReplaceDevice(const char*) override {
    is_stuck = false;
    ++replaced;
    return true;
  }

  bool is_stuck = false;
  int replaced = 0;
};

TEST(FullPortTest, ADeviceThatTakesNothingIsReplaced) {
  auto made = std::make_unique<StuckPort>(testing::OpenTestPort("ring:st:a"));
  StuckPort& port = *made;
  NodePair pair(std::move(made), testing::OpenTestPort("ring:st:b"));
  MakeImpatient(pair.a, /*retries=*/2);
  port.is_stuck = true;
  ASSERT_TRUE(pair.a.rings().PostSend(Write(pair.a, pair.b)));
  pair.a.engine().Doorbell(pair.a.qp());
  RunFor(pair.a, Duration::Milliseconds(1900));
  EXPECT_EQ(port.replaced, 0);
  urnic_cqe cqe = {};
  for (int i = 0; i < 100'000'000 && !pair.a.Poll(cqe); ++i) {
    pair.a.engine().Progress();
    pair.b.engine().Progress();
  }
  EXPECT_EQ(port.replaced, 1);
  EXPECT_EQ(cqe.status, URNIC_WC_SUCCESS);
  EXPECT_EQ(pair.a.engine().failures().CountOf(ErrorCode::kPortStuck), 1u);
}

TEST(FullPortTest, FramesThatFoundNoRoomAreSentAtTheEnd) {
  auto pair = std::make_unique<NodePair>("end");
  EngineNode& a = pair->a;
  EngineNode& b = pair->b;
  std::memcpy(a.memory(), "from a..", 8);
  std::memcpy(b.memory(), "from b..", 8);
  ASSERT_TRUE(b.rings().PostSend(Write(b, a)));
  b.engine().Doorbell(b.qp());
  FillPort(a.port());
  ASSERT_TRUE(a.rings().PostSend(Write(a, b)));
  a.engine().Doorbell(a.qp());
  a.engine().Progress();
  ASSERT_EQ(std::memcmp(a.memory() + 4096, "from b..", 8), 0);
  a.DestroyQp();

  std::atomic<bool> ended = false;
  std::thread end([&] {
    a.End();
    ended = true;
  });
  while (!ended) b.engine().Progress();
  end.join();
  // The ring is still full of the earlier frames; a turn takes one burst of
  // them.
  urnic_cqe cqe = {};
  bool acknowledged = false;
  for (int i = 0; i < 1000 && !acknowledged; ++i) {
    b.engine().Progress();
    acknowledged = b.Poll(cqe);
  }
  ASSERT_TRUE(acknowledged);
  EXPECT_EQ(std::memcmp(b.memory() + 4096, "from a..", 8), 0);
  EXPECT_EQ(cqe.status, URNIC_WC_SUCCESS);
}

// The peer never fetches frames: they are discarded after a moment.
TEST(FullPortTest, ASleepingPeerDoesNotDelayTheEnd) {
  auto pair = std::make_unique<NodePair>("asleep");
  FillPort(pair->a.port());
  ASSERT_TRUE(pair->a.rings().PostSend(Write(pair->a, pair->b)));
  pair->a.engine().Doorbell(pair->a.qp());
  pair->a.End();
}

}  // namespace
}  // namespace urnic
