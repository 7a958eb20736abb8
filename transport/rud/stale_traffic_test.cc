// Packets from before a restart, a recovery, or another use of a context are
// replayed. They must write nothing.

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/support/rud_pair.h"

namespace urnic::rud {
namespace {

using testing::Bytes;
using testing::RudEnd;
using testing::Tid;

constexpr uint16_t kStride = testing::kRudStride;

class StaleTrafficTest : public testing::RudPair {
 protected:
  // Records all packets to A and to B of a session with writes, reads, other
  // attempts, state requests, and packets that are in flight at its end.
  void Record() {
    for (uint64_t transfer = 1; transfer <= 20; ++transfer) {
      urnic_rud_send command = Command(
          transfer % 3 == 0 ? URNIC_RUD_READ : URNIC_RUD_WRITE, Tid(transfer),
          static_cast<uint32_t>(1 + transfer * 37 % (8 * kStride)));
      command.notify = URNIC_RUD_NOTIFY_SOURCE | URNIC_RUD_NOTIFY_TARGET;
      for (uint8_t attempt = 0; attempt < 2; ++attempt) {
        command.tid = Tid(transfer, attempt);
        a_.Post(command);
        Exchange(transfer % 4 == 0 && attempt == 0);
      }
      urnic_rud_send ask = Command(URNIC_RUD_ASK_STATE, Tid(transfer, 9), 0);
      ask.notify = 0;
      a_.Post(ask);
      Exchange(false);
    }
    // These are never delivered.
    for (Bytes& packet : Send(Command(URNIC_RUD_WRITE, Tid(50), 8 * kStride))) {
      to_b_.push_back(std::move(packet));
    }
    ASSERT_GT(to_b_.size(), 50u);
    ASSERT_GT(to_a_.size(), 20u);
  }
  // `loses`: the packets to B are lost.
  void Exchange(bool loses) {
    while (a_.window().HasWork() || b_.window().HasWork()) {
      for (Bytes& packet : SendFrom(a_, b_)) {
        if (!loses) (void)Give(packet);
        to_b_.push_back(std::move(packet));
      }
      for (Bytes& packet : SendFrom(b_, a_)) {
        (void)a_.Receive(packet, b_.config().address);
        to_a_.push_back(std::move(packet));
      }
      while (a_.Poll().has_value() || b_.Poll().has_value()) {
      }
    }
  }

  // Replays recorded packets to an end, one by one and in bursts.
  void Replay(RudEnd& end, const std::vector<Bytes>& packets,
              const wire::Gid& from) {
    end.on_place = [](const Placement&, const RxPacket&) {
      ADD_FAILURE() << "a byte is written";
    };
    for (const Bytes& packet : packets)
      EXPECT_NE(end.Receive(packet, from), RxVerdict::kAccept);
    for (size_t i = 0; i < packets.size(); i += kBurstMax) {
      const size_t last = std::min<size_t>(i + kBurstMax, packets.size());
      end.ReceiveBurst({packets.begin() + static_cast<int64_t>(i),
                        packets.begin() + static_cast<int64_t>(last)},
                       from);
    }
    EXPECT_FALSE(end.window().failed());
    EXPECT_FALSE(end.window().HasWork());
    EXPECT_FALSE(end.Poll().has_value());
  }
  // Gives each context an owner again.
  static void AcquireAll(RudEnd& end) {
    while (end.contexts().free() != 0) end.Acquire();
  }

  std::vector<Bytes> to_a_;
  std::vector<Bytes> to_b_;
};

TEST_F(StaleTrafficTest, NothingIsWrittenAfterARestart) {
  Record();
  for (uint64_t seed = 100; seed < 110; ++seed) {
    testing::RudEndConfig config = testing::RudPairConfig(2);
    config.seed = seed;
    RudEnd again(config);
    Register(again, b_bytes_, testing::kRudAll);
    AcquireAll(again);
    Replay(again, to_b_, a_.config().address);
  }
  testing::RudEndConfig config = testing::RudPairConfig(1);
  config.seed = 100;
  RudEnd again(config);
  Register(again, a_bytes_, testing::kRudAll);
  AcquireAll(again);
  Replay(again, to_a_, b_.config().address);
}

TEST_F(StaleTrafficTest, NothingIsWrittenAfterARecovery) {
  Record();
  for (RudEnd* end : {&a_, &b_}) {
    end->Recover();
    AcquireAll(*end);
  }
  Replay(b_, to_b_, a_.config().address);
  Replay(a_, to_a_, b_.config().address);
}

TEST_F(StaleTrafficTest, NothingIsWrittenAfterContextsAreUsedAgain) {
  Record();
  a_.Release(a_context_);
  b_.Release(b_context_);
  for (RudEnd* end : {&a_, &b_}) AcquireAll(*end);
  Replay(b_, to_b_, a_.config().address);
  Replay(a_, to_a_, b_.config().address);
}

// The owner has begun another transfer on the same context.
TEST_F(StaleTrafficTest, NothingIsWrittenAfterALaterTransfer) {
  Record();
  a_.Post(Command(URNIC_RUD_WRITE, Tid(60), 8));
  Exchange(false);
  to_b_.pop_back();
  to_a_.pop_back();
  Replay(b_, to_b_, a_.config().address);
  Replay(a_, to_a_, b_.config().address);
}

}  // namespace
}  // namespace urnic::rud
