// The inputs of iWARP queue pairs, between two engines at the ends of a ring,
// are logged, and a replay has the same results. The simulators test this with
// random connections (tests/sim); these tests are about rare events and damaged
// logs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "ras/inputs/input_log.h"
#include "tests/sim/replay.h"
#include "tests/support/iwarp_node.h"
#include "tests/support/random.h"
#include "transport/iwarp/qp/inputs.h"

namespace urnic {
namespace {

using iwarp::Event;
using testing::IwarpNode;
using testing::IwarpPair;
using testing::Random;
using testing::SendWr;
using Program = IwarpNode::Program;

constexpr size_t kLogBytes = 8 << 20;
constexpr size_t kTarget = 512 << 10;

std::span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string TextOf(const InputLog& log) {
  std::string text;
  log.AppendTo(text);
  return text;
}

// How many items of a kind a log has.
template <typename Kind>
size_t CountOf(Kind kind, const InputLog& log) {
  const std::string text = TextOf(log);
  std::span<const uint8_t> bytes = BytesOf(text);
  size_t count = 0;
  const ParsedInputLog parsed = *TakeInputLog(bytes);
  for (const auto& segment : parsed.segments) {
    count += static_cast<size_t>(
        std::ranges::count(segment, static_cast<uint8_t>(kind),
                           [](const InputItem& item) { return item.kind; }));
  }
  return count;
}

sim::ReplayStats ReplayOf(const InputLog& log) {
  const std::string text = TextOf(log);
  std::span<const uint8_t> bytes = BytesOf(text);
  const auto parsed = TakeInputLog(bytes);
  EXPECT_TRUE(parsed.ok());
  const auto stats = sim::Replay(*parsed, nullptr);
  EXPECT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(stats->differs_at, 0u) << stats->difference;
  return *stats;
}

// Changes items, or their order.
void DamageItems(std::vector<InputItem>& items, Random& random) {
  for (uint64_t n = 1 + random.Below(3); n != 0; --n) {
    InputItem& item = items[random.Below(items.size())];
    InputItem& other = items[random.Below(items.size())];
    switch (random.Below(5)) {
      case 0:
        std::swap(item, other);
        break;
      case 1:
        item = other;
        break;
      case 2:
        item.kind = random.Byte() % 40;
        break;
      case 3:
        item.small = random.Byte();
        item.medium = random.Byte();
        item.large = static_cast<uint32_t>(random.Below(5000));
        break;
      default:
        items.erase(items.begin() + (&item - items.data()));
    }
  }
}

class IwarpInputsTest : public ::testing::Test {
 protected:
  void Make(const testing::IwarpNodeOptions& options = {}) {
    pair_ = std::make_unique<IwarpPair>("iwi", options);
    from_ = &a().Create();
    to_ = &b().Create();
  }
  IwarpNode& a() { return pair_->a; }
  IwarpNode& b() { return pair_->b; }
  std::shared_ptr<InputLog> Log(IwarpNode& node, Program& program,
                                size_t bytes = kLogBytes) {
    auto log = std::make_shared<InputLog>(program.qp->qpn(), bytes);
    node.Control([&](ConnectionTable&) {
      EXPECT_TRUE(program.qp->LogInputs(log, node.engine().Now()));
    });
    return log;
  }
  void Send(uint32_t bytes, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(b().PostReceive(*to_, {.sges = {b().Sge(kTarget, bytes)}}));
    }
    for (size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(a().PostSend(*from_, {.sges = {a().Sge(0, bytes)}}));
    }
    const size_t all = b().done.size() + count;
    ASSERT_TRUE(pair_->RunUntil(
        [&] { return b().done.size() == all && a().done.size() == all; }));
  }

  uint32_t link_mtu_ = 1500;
  std::unique_ptr<IwarpPair> pair_;
  Program* from_ = nullptr;
  Program* to_ = nullptr;
};

TEST_F(IwarpInputsTest, AConnectionFromItsBeginningToItsEnd) {
  Make();
  const auto logs = {Log(a(), *from_), Log(b(), *to_)};
  ASSERT_TRUE(pair_->Connect(*from_, *to_));
  Send(3000, 5);
  a().Modify(*from_, QpState::kErr);
  ASSERT_TRUE(
      pair_->RunUntil([&] { return b().has_told(Event::kDisconnected); }));
  for (const auto& log : logs) {
    EXPECT_EQ(log->lost_ever(), 0u);
    EXPECT_EQ(CountOf(iwarp::Input::kTakeEvent, *log), 2u);
    const sim::ReplayStats stats = ReplayOf(*log);
    EXPECT_GE(stats.received, 4u);
    EXPECT_GE(stats.sent, 4u);
    EXPECT_EQ(stats.completions, 5u);
  }
}

// A gap is filled, and more receives complete than a burst has room for.
TEST_F(IwarpInputsTest, CompletionsThatAreWrittenWithinASegment) {
  Make({.fault = "delay=100us,reorder=10%:500us"});
  ASSERT_TRUE(pair_->Connect(*from_, *to_));
  const auto log = Log(b(), *to_);
  for (int i = 0; i < 100 && CountOf(iwarp::Input::kDeliver, *log) == 0; ++i) {
    Send(8, IwarpNode::kEntries);
  }
  EXPECT_GT(CountOf(iwarp::Input::kDeliver, *log), 0u);
  EXPECT_EQ(ReplayOf(*log).completions, b().done.size());
}

TEST_F(IwarpInputsTest, ALogBeginsInTheMiddleAndIsRenewed) {
  Make({.fault = "loss=2%"});
  ASSERT_TRUE(pair_->Connect(*from_, *to_));
  Send(100000, 3);
  const auto sender = Log(a(), *from_, InputLog::kBytesMin);
  const auto receiver = Log(b(), *to_, InputLog::kBytesMin);
  Send(100000, 20);
  for (const auto& log : {sender, receiver}) {
    EXPECT_EQ(log->segments(), 2u);
    EXPECT_GT(ReplayOf(*log).calls, 10u);
  }
  // Nothing more is logged.
  a().Control([&](ConnectionTable&) {
    EXPECT_TRUE(from_->qp->LogInputs(nullptr, Time()));
  });
  const std::string before = TextOf(*sender);
  Send(1000, 3);
  EXPECT_EQ(TextOf(*sender), before);
}

TEST_F(IwarpInputsTest, OutagesAndOtherLinks) {
  Make({.link_mtu = &link_mtu_});
  const auto log = Log(a(), *from_);
  ASSERT_TRUE(pair_->Connect(*from_, *to_));
  Send(50000, 2);
  link_mtu_ = 900;
  Send(50000, 2);
  a().Control([&](ConnectionTable&) {
    from_->qp->connection()->OnOutage(a().engine().Now());
  });
  link_mtu_ = 1200;
  Send(50000, 2);
  EXPECT_EQ(CountOf(iwarp::Input::kLinkMtu, *log), 2u);
  EXPECT_EQ(CountOf(iwarp::Input::kOutage, *log), 1u);
  EXPECT_EQ(ReplayOf(*log).completions, 6u);
}

TEST_F(IwarpInputsTest, MemoryThatIsGone) {
  Make();
  const auto log = Log(a(), *from_);
  ASSERT_TRUE(pair_->Connect(*from_, *to_));
  // The key of a region that no program owns.
  const uint32_t key = a().Control([&](ConnectionTable&) {
    return a().network().mrs().Register(testing::kNodePd, 4096, 4096, 4096,
                                        testing::kNodeRights);
  });
  SendWr wr;
  wr.sges = {{4096, 1000, key}};
  ASSERT_TRUE(a().PostSend(*from_, wr));
  ASSERT_TRUE(
      pair_->RunUntil([&] { return a().has_told(Event::kDisconnected); }));
  EXPECT_EQ(CountOf(iwarp::Input::kNoMemory, *log), 1u);
  EXPECT_EQ(ReplayOf(*log).errors, 1u);
}

TEST_F(IwarpInputsTest, AQueuePairThatIsUsedAgain) {
  Make();
  const auto log = Log(a(), *from_);
  for (uint16_t life = 0; life < 3; ++life) {
    ASSERT_TRUE(
        pair_->Connect(*from_, *to_, static_cast<uint16_t>(2000 + life)));
    Send(1000, 4);
    a().Modify(*from_, QpState::kReset);
    ASSERT_TRUE(pair_->RunUntil([&] {
      return to_->qp->core_state() == QpState::kErr &&
             to_->qp->connection() == nullptr;
    }));
    b().Modify(*to_, QpState::kReset);
    b().Modify(*to_, QpState::kInit);
    a().Modify(*from_, QpState::kInit);
    a().told.clear();
    b().told.clear();
  }
  EXPECT_GT(CountOf(iwarp::Input::kDetach, *log), 0u);
  EXPECT_GT(ReplayOf(*log).calls, 10u);
  // The log outlives the queue pair.
  a().Destroy(*from_);
  EXPECT_GT(ReplayOf(*log).calls, 10u);
}

// The first and the second attempt are separate connections in the log.
TEST_F(IwarpInputsTest, APeerThatIsAskedAgain) {
  Make();
  b().setup.revision = 1;
  const auto log = Log(a(), *from_);
  ASSERT_TRUE(pair_->Connect(*from_, *to_));
  Send(1000, 4);
  EXPECT_EQ(log->segments(), 2u);
  EXPECT_EQ(ReplayOf(*log).completions, 4u);
}

// The queue pair that should have accepted still has no connection.
TEST_F(IwarpInputsTest, ARequestThatIsOverWhenItIsAccepted) {
  Make();
  b().Listen(7000);
  IwarpConnection& ours = a().Connect(*from_, b(), 2000, 7000);
  ASSERT_TRUE(pair_->RunUntil([&] { return b().has_told(Event::kRequest); }));
  const auto log = Log(b(), *to_);
  a().Control([&](ConnectionTable& table) { table.Disconnect(ours); });
  ASSERT_TRUE(pair_->RunUntil([&] { return b().told.size() == 2; }));
  EXPECT_FALSE(b().Accept(*b().told[0].connection, *to_).ok());
  b().Modify(*to_, QpState::kErr);
  EXPECT_GT(ReplayOf(*log).calls, 0u);
}

// A log comes from a file. Whatever it contains, a replay reports what is wrong
// with it, or what differs.
TEST_F(IwarpInputsTest, ADamagedLogIsNotBelieved) {
  Make({.fault = "loss=1%,reorder=5%:300us"});
  const std::shared_ptr<InputLog> logs[] = {Log(a(), *from_), Log(b(), *to_)};
  ASSERT_TRUE(pair_->Connect(*from_, *to_));
  Send(2000, 20);
  Random random(1);
  int refused = 0;
  int differ = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = TextOf(*logs[round % 2]);
    const bool by_items = random.OneIn(2);
    for (uint64_t n = by_items ? 0 : 1 + random.Below(3); n != 0; --n)
      text[random.Below(text.size())] = static_cast<char>(random.Byte());
    if (random.OneIn(16)) text.resize(random.Below(text.size()));
    std::span<const uint8_t> bytes = BytesOf(text);
    auto parsed = TakeInputLog(bytes);
    if (!parsed.ok()) continue;
    if (by_items) DamageItems(parsed->segments.back(), random);
    const auto stats = sim::Replay(*parsed, nullptr);
    refused += stats.ok() ? 0 : 1;
    differ += stats.ok() && stats->differs_at != 0 ? 1 : 0;
  }
  EXPECT_GT(refused, 10);
  EXPECT_GT(differ, 10);
}

}  // namespace
}  // namespace urnic
