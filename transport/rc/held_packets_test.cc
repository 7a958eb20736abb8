#include "transport/rc/held_packets.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "tests/support/endpoint.h"
#include "transport/base/random.h"

namespace urnic::rc {
namespace {

using Result = HeldPackets::Result;

// Counts the frames that are kept.
class CountingKeeper final : public FrameKeeper {
 public:
  uint32_t Keep(const ReceivedFrame&, FrameHolder& holder) override {
    if (kept == limit || holder.kept == holder.limit) return kRefused;
    ++holder.kept;
    ++kept;
    return kept;
  }
  void Release(uint32_t, FrameHolder& holder) override {
    --holder.kept;
    --kept;
  }
  uint32_t kept = 0;
  uint32_t limit = 100000;
};

class HeldPacketsTest : public ::testing::Test {
 protected:
  // A write of one packet, whose payload is `data`.
  RxPacket Packet(uint32_t psn, uint8_t data = 1, bool ack = false) {
    const std::vector<uint8_t> payload(8, data);
    wire::PacketFields fields;
    fields.opcode = static_cast<uint8_t>(wire::Opcode::kRcWriteOnly);
    fields.psn = Psn(psn);
    fields.ack_requested = ack;
    fields.repair = ack ? 1 : 0;
    fields.payload = payload;
    frames_.push_back(
        std::make_unique<testing::Packet>(testing::MakePacket(fields)));
    RxPacket packet;
    EXPECT_EQ(
        wire::ParseRoce(frames_.back()->data(),
                        static_cast<uint32_t>(frames_.back()->size()), packet),
        RxVerdict::kAccept);
    return packet;
  }
  Result Insert(uint32_t psn, uint8_t data = 1, uint32_t psns = 1) {
    return held_.Insert(Psn(100), Packet(psn, data), psns);
  }
  std::vector<uint32_t> Take(uint32_t next, size_t room = kRunMax) {
    std::vector<RxPacket> out(room);
    const uint32_t count = held_.Take(Psn(next), out);
    std::vector<uint32_t> psns;
    for (uint32_t i = 0; i < count; ++i) {
      psns.push_back(out[i].psn().value());
      EXPECT_EQ(out[i].payload_bytes, 8u);
    }
    return psns;
  }

  std::vector<std::unique_ptr<testing::Packet>> frames_;
  CountingKeeper keeper_;
  HeldPool pool_{64, &keeper_};
  HeldPackets held_{&pool_};
};

TEST_F(HeldPacketsTest, GivesThemInOrderUpToTheNextGap) {
  for (const uint32_t psn : {105u, 101u, 102u, 107u}) {
    EXPECT_EQ(Insert(psn), Result::kHeld);
  }
  EXPECT_EQ(held_.begin(), Psn(101));
  EXPECT_EQ(held_.end(), Psn(108));
  EXPECT_EQ(Take(100), std::vector<uint32_t>());
  EXPECT_EQ(Take(101), (std::vector<uint32_t>{101, 102}));
  EXPECT_EQ(keeper_.kept, 4u);  // what was taken is still needed
  held_.ReleaseTaken();
  EXPECT_EQ(keeper_.kept, 2u);
  EXPECT_EQ(Take(105, 1), (std::vector<uint32_t>{105}));
  held_.Drop();
  held_.ReleaseTaken();
  EXPECT_EQ(keeper_.kept, 0u);
  EXPECT_TRUE(held_.idle());
}

TEST_F(HeldPacketsTest, DropsWhatHasBeenExecuted) {
  (void)Insert(101);
  (void)Insert(103);
  EXPECT_EQ(Take(103), (std::vector<uint32_t>{103}));
  held_.ReleaseTaken();
  EXPECT_TRUE(held_.idle());
}

TEST_F(HeldPacketsTest, KnowsTheSameFromAnother) {
  EXPECT_EQ(Insert(101, 7), Result::kHeld);
  EXPECT_EQ(held_.Insert(Psn(100), Packet(101, 7, /*ack=*/true), 1),
            Result::kDuplicate);
  EXPECT_EQ(Insert(101, 8), Result::kConflict);
  EXPECT_TRUE(held_.idle());
  EXPECT_EQ(keeper_.kept, 0u);
}

TEST_F(HeldPacketsTest, APacketOfSeveralPsnsConflictsWithEachOfThem) {
  EXPECT_EQ(Insert(101, 1, 5), Result::kHeld);
  EXPECT_EQ(Insert(104), Result::kConflict);
  EXPECT_TRUE(held_.idle());
}

TEST_F(HeldPacketsTest, RefusesWhatIsTooFarAhead) {
  EXPECT_EQ(Insert(100 + kGapMax + 1), Result::kRefused);
  EXPECT_EQ(Insert(100 + kGapMax), Result::kHeld);
  EXPECT_EQ(Insert(101 + 2 * kGapMax), Result::kHeld);
  EXPECT_EQ(Insert(200, 1, kHoldSpan), Result::kRefused);
}

TEST_F(HeldPacketsTest, RefusesWithoutRoom) {
  keeper_.limit = 1;
  EXPECT_EQ(Insert(101), Result::kHeld);
  EXPECT_EQ(Insert(102), Result::kRefused);
  keeper_.limit = 100;
  for (uint32_t i = 1; i < 64; ++i) EXPECT_EQ(Insert(101 + i), Result::kHeld);
  EXPECT_EQ(Insert(165), Result::kRefused);  // the pool's
}

TEST_F(HeldPacketsTest, TheBitmapBeginsBehindTheFirstMissing) {
  (void)Insert(101);
  (void)Insert(104, 1, 3);
  (void)Insert(134);
  uint8_t bitmap[kBitmapMax];
  EXPECT_EQ(held_.WriteBitmap(Psn(100), bitmap), 8u);
  EXPECT_EQ(bitmap[0], 0b00111001);
  EXPECT_EQ(bitmap[4], 0b00000010);
  EXPECT_EQ(held_.WriteBitmap(Psn(100), std::span(bitmap, 4)), 4u);
}

// Packets in any order, repeated, with gaps: each PSN is taken once, in order.
TEST_F(HeldPacketsTest, TakesEachOnceInOrder) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Random random(seed);
    std::map<uint32_t, bool> expected;
    uint32_t next = 100;
    for (int step = 0; step < 60; ++step) {
      const uint32_t psn = next + 1 + static_cast<uint32_t>(random.Below(30));
      const Result result = held_.Insert(Psn(next), Packet(psn), 1);
      if (expected.count(psn) != 0) {
        ASSERT_EQ(result, Result::kDuplicate);
      } else if (result == Result::kHeld) {
        expected[psn] = true;
      }
      if (!random.OneIn(5)) continue;
      ++next;  // the missing one has come
      expected.erase(expected.begin(), expected.lower_bound(next));
      for (const uint32_t taken : Take(next, 8)) {
        ASSERT_EQ(taken, next);
        ASSERT_EQ(expected.erase(taken), 1u);
        ++next;
      }
      held_.ReleaseTaken();
    }
    held_.Drop();
    ASSERT_EQ(keeper_.kept, 0u);
    frames_.clear();
  }
}

}  // namespace
}  // namespace urnic::rc
