// The engine under the program's own loop, which only uses what the reactor
// returns. One thread.

#include "datapath/engine/reactor.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "datapath/engine/engine.h"
#include "datapath/engine/qp_table.h"
#include "datapath/port/wrapped_port.h"
#include "tests/support/engine_node.h"

namespace urnic {
namespace {

using testing::EngineNode;
using testing::kNodeRights;
using testing::SendWr;

bool IsReadable(int fd) {
  pollfd at = {fd, POLLIN, 0};
  return poll(&at, 1, 0) == 1;
}

// One queue pair that talks to itself.
class ReactorTest : public ::testing::Test {
 protected:
  ReactorTest() : node_("loop", 0x0a010001) {
    const auto path = node_.nic().ResolvePath(
        {.local = node_.gid(), .remote = node_.gid(), .udp_src_port = 50000},
        Duration::Seconds(10));
    EXPECT_TRUE(path.ok()) << path.status();
    QpConfig config;
    config.access = kNodeRights;
    config.mtu = 1024;
    config.timeout = Duration::Seconds(4);
    config.max_rd_atomic = config.max_dest_rd_atomic = 1;
    config.dest_qpn = node_.qp().qpn();
    node_.Connect(*path, config);
    auto reactor = Reactor::Start(node_.engine());
    EXPECT_TRUE(reactor.ok()) << reactor.status();
    reactor_ = *reactor;
  }

  void PostWrite(uint32_t bytes) {
    SendWr write;
    write.opcode = URNIC_WR_RDMA_WRITE;
    write.sges = {node_.Sge(0, bytes)};
    write.remote_addr = node_.address(1 << 19);
    write.rkey = node_.key();
    ASSERT_TRUE(node_.rings().PostSend(write));
    node_.engine().Doorbell(node_.qp());
  }
  // Runs until there is nothing to do; returns when the next work is due.
  Time RunAll() {
    for (;;) {
      while (reactor_->RunOnce()) {
      }
      const Time due = reactor_->PrepareToSleep();
      if (due > node_.engine().Now()) return due;
    }
  }
  // Runs, and sleeps as long as allowed, until work has completed. On a busy
  // machine the sender may wait for its pacing, or for a probe.
  urnic_cqe RunUntilCompletion() {
    urnic_cqe cqe = {};
    for (;;) {
      const Time due = RunAll();
      if (node_.Poll(cqe)) return cqe;
      if (due.IsInfinite()) break;
      pollfd at = {reactor_->fd(), POLLIN, 0};
      const Duration wait = due - node_.engine().Now();
      const timespec limit = {
          0, std::clamp(wait.ns(), int64_t{0}, int64_t{999999999})};
      EXPECT_GE(ppoll(&at, 1, &limit, nullptr), 0);
    }
    ADD_FAILURE() << "nothing to do, and no completion";
    return cqe;
  }

  EngineNode node_;
  Reactor* reactor_ = nullptr;
};

TEST_F(ReactorTest, CarriesALongMessageToItsEnd) {
  std::memset(node_.memory(), 7, 300000);
  PostWrite(300000);
  EXPECT_EQ(RunUntilCompletion().status, URNIC_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(node_.memory(), node_.memory() + (1 << 19), 300000), 0);
}

TEST_F(ReactorTest, APostWakesASleepingLoop) {
  RunAll();
  EXPECT_FALSE(IsReadable(reactor_->fd()));
  PostWrite(8);
  EXPECT_TRUE(IsReadable(reactor_->fd()));
  EXPECT_EQ(RunUntilCompletion().status, URNIC_WC_SUCCESS);
  EXPECT_FALSE(IsReadable(reactor_->fd()));
}

TEST_F(ReactorTest, ATimerLimitsTheSleep) {
  // The peer does not exist, so it does not answer.
  QpConfig config = node_.qp().config();
  config.dest_qpn = 0x123456;
  {
    Engine::ControlScope scope(node_.engine());
    node_.engine().qps().Modify(node_.qp(), QpState::kReset, config);
    for (auto state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      node_.engine().qps().Modify(node_.qp(), state, config);
    }
  }
  PostWrite(8);
  const Time now = node_.engine().Now();
  const Time due = RunAll();
  EXPECT_GT(due, now);
  EXPECT_LE(due, now + config.timeout * 4);
}

// A port that can wake a sleeper, and shows whether it is armed.
class KnockingPort final : public WrappedPort {
 public:
  explicit KnockingPort(std::unique_ptr<Port> port)
      : WrappedPort(std::move(port)), fd_(eventfd(0, EFD_NONBLOCK)) {}
  ~KnockingPort() override { close(fd_); }

  uint16_t Receive(rte_mbuf**, uint16_t) override { return 0; }
  uint16_t Transmit(rte_mbuf**, uint16_t) override { return 0; }
  bool ArmWakeup() override { return armed = true; }
  void DisarmWakeup() override {
    armed = false;
    uint64_t count;
    EXPECT_EQ(read(fd_, &count, sizeof(count)), 8);
  }
  int wait_fd() const override { return fd_; }

  void Knock() const {
    const uint64_t one = 1;
    EXPECT_EQ(write(fd_, &one, sizeof(one)), 8);
  }

  bool armed = false;

 private:
  const int fd_;
};

TEST(ReactorPortTest, AFrameWakesASleepingLoop) {
  auto owned = std::make_unique<KnockingPort>(testing::OpenTestPort("loop"));
  KnockingPort& port = *owned;
  Nic nic(std::move(owned), NicConfig());
  auto reactor = Reactor::Start(nic.engine());
  ASSERT_TRUE(reactor.ok()) << reactor.status();
  EXPECT_TRUE((*reactor)->PrepareToSleep().IsInfinite());
  EXPECT_TRUE(port.armed);
  EXPECT_FALSE(IsReadable((*reactor)->fd()));
  port.Knock();
  EXPECT_TRUE(IsReadable((*reactor)->fd()));
  (*reactor)->RunOnce();
  EXPECT_FALSE(port.armed);
  EXPECT_FALSE(IsReadable((*reactor)->fd()));
}

}  // namespace
}  // namespace urnic
