// A queue pair that is served by another flow, as a queue pair of iWARP is by
// its connection.

#include <gtest/gtest.h>

#include <string>

#include "datapath/engine/engine.h"
#include "tests/support/engine_node.h"

namespace urnic {
namespace {

using testing::EngineNode;

// A failed flow. The engine settles it when something has been posted.
class FakeConnection final : public Flow {
 public:
  FakeConnection() : Flow(Kind::kConnection) { Note({.state = QpState::kErr}); }

  const net::Path* common_path() const override { return nullptr; }
  FlowResult OnTimer(Time, FlowSink&) override { return {}; }
  FlowResult Settle(FlowSink&) override {
    ++settled;
    return {.state = QpState::kErr};
  }
  FlowResult Settle(TracedSink&) override { return {}; }
  void OnEvent(QpEvent) override {}
  bool ShowFailed(bool) override { return true; }
  void OnFailed() override {}

  int settled = 0;
};

class FakeQp final : public EngineQp {
 public:
  FakeQp() : EngineQp(Kind::kIwarpQp, EngineQpConfig()) {}
  void ServeBy(Flow& flow) { serving_flow_ = &flow; }

  const net::Path* common_path() const override { return nullptr; }
  FlowResult OnTimer(Time, FlowSink&) override { return {}; }
  FlowResult Settle(FlowSink&) override { return {}; }
  FlowResult Settle(TracedSink&) override { return {}; }
  FlowResult Modify(QpState, const QpConfig&, FlowSink&) override { return {}; }
  void Reconfigure(const QpConfig&) override {}
  const QpConfig& config() const override { return config_; }
  RequesterCounters counters() const override { return {}; }
  void DescribeWork(Time, FactWriter&) const override {}
  void DescribeFailure(Failure&) const override {}
  void AppendImage(Time, std::string&) const override {}

 private:
  QpConfig config_;
};

TEST(ServingFlowTest, AQueuePairServesItself) {
  FakeQp qp;
  EXPECT_EQ(&qp.serving_flow(), &qp);
  EXPECT_FALSE(qp.is_roce_qp());
  EngineNode node("ring:serving:a", 0x0a010001);
  EXPECT_EQ(&node.qp().serving_flow(), &node.qp());
  EXPECT_TRUE(node.qp().is_roce_qp());
}

TEST(ServingFlowTest, ADoorbellWakesTheFlowThatServesTheQueuePair) {
  EngineNode node("ring:serving:b", 0x0a010001);
  FakeConnection connection;
  FakeQp qp;
  qp.ServeBy(connection);
  node.engine().Doorbell(qp);
  EXPECT_EQ(connection.settled, 1);
}

}  // namespace
}  // namespace urnic
