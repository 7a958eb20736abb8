#include "transport/impair/line.h"

#include <gtest/gtest.h>

#include <vector>

namespace urnic::impair {
namespace {

constexpr Time kStart = Time::FromNs(5'000'000'000);
constexpr uint32_t kFrameBytes = 100;

Time At(int64_t us) { return kStart + Duration::Microseconds(us); }

std::vector<uint8_t> Frame(uint8_t number) {
  return std::vector<uint8_t>(14 + number, number);
}

class LineTest : public testing::Test {
 protected:
  Line& Make(const Config& config, uint32_t frames = 64) {
    line_ = std::make_unique<Line>(config, 1, kStart, frames, kFrameBytes);
    return *line_;
  }
  bool Enter(int64_t us, uint8_t number) {
    std::vector<uint8_t> frame = Frame(number);
    return line_->Enter(At(us), frame);
  }
  // The numbers of the frames that are due.
  std::vector<uint8_t> Due(int64_t us) {
    std::vector<uint8_t> numbers;
    for (;;) {
      const auto frame = line_->Due(At(us));
      if (frame.empty()) return numbers;
      EXPECT_EQ(std::vector<uint8_t>(frame.begin(), frame.end()),
                Frame(frame[0]));
      numbers.push_back(frame[0]);
      line_->Pop();
      line_->OnDelivered(1);
    }
  }
  uint64_t Of(Count count) const { return line_->Read().of(count); }
  using Numbers = std::vector<uint8_t>;

  std::unique_ptr<Line> line_;
};

TEST_F(LineTest, WithoutFaultsEveryFrameIsPassedOnImmediately) {
  Line& line = Make({});
  EXPECT_TRUE(Enter(1, 1));
  EXPECT_TRUE(Enter(1, 2));
  EXPECT_TRUE(line.NextDue().IsInfinite());
}

TEST_F(LineTest, DelayedFramesAreDueInOrder) {
  Config config;
  config.delay = Duration::Microseconds(10);
  Line& line = Make(config);
  for (uint8_t i = 1; i <= 5; ++i) EXPECT_FALSE(Enter(i, i));
  EXPECT_EQ(line.NextDue(), At(11));
  EXPECT_EQ(line.under_way(), 5u);
  EXPECT_EQ(Due(10), Numbers());
  EXPECT_EQ(Due(12), (Numbers{1, 2}));
  EXPECT_EQ(Due(99), (Numbers{3, 4, 5}));
  EXPECT_EQ(line.under_way(), 0u);
  EXPECT_EQ(Of(Count::k_delivered), 5u);
}

TEST_F(LineTest, AFrameDoesNotOvertakeOneThatIsDue) {
  Config config;
  config.stall = {.after = Duration::Microseconds(10),
                  .length = Duration::Microseconds(10)};
  Make(config);
  EXPECT_FALSE(Enter(15, 1));
  EXPECT_FALSE(Enter(20, 2)) << "the first is due, and first";
  EXPECT_EQ(Due(20), (Numbers{1, 2}));
  EXPECT_TRUE(Enter(20, 3));
}

TEST_F(LineTest, ACopyFollowsItsOriginal) {
  Config config;
  config.duplicate_ppm = kAll;
  Line& line = Make(config);
  EXPECT_TRUE(Enter(1, 1));
  EXPECT_EQ(line.NextDue(), At(1));
  EXPECT_EQ(Due(1), Numbers{1});
}

TEST_F(LineTest, OnlyTheOriginalIsDamaged) {
  Config config;
  config.duplicate_ppm = config.corrupt_ppm = kAll;
  Make(config);
  std::vector<uint8_t> frame = Frame(9);
  EXPECT_TRUE(line_->Enter(At(1), frame));
  EXPECT_NE(frame, Frame(9));
  EXPECT_EQ(Due(1), Numbers{9});
}

TEST_F(LineTest, FramesWithoutRoomAreCounted) {
  Config config;
  config.delay = Duration::Microseconds(10);
  Make(config, 3);
  for (uint8_t i = 1; i <= 5; ++i) EXPECT_FALSE(Enter(0, i));
  EXPECT_EQ(Of(Count::k_no_room), 2u);
  EXPECT_EQ(Due(10), (Numbers{1, 2, 3}));
  for (uint8_t i = 6; i <= 8; ++i) EXPECT_FALSE(Enter(20, i));
  EXPECT_EQ(Due(30), (Numbers{6, 7, 8}));
  EXPECT_EQ(Of(Count::k_offered), 8u);
  EXPECT_EQ(Of(Count::k_delivered), 6u);
}

TEST_F(LineTest, FramesTakenBackAreNextInTheirOrder) {
  Line& line = Make({});
  EXPECT_TRUE(Enter(1, 1));
  EXPECT_TRUE(Enter(1, 2));
  line.TakeBack(At(1), Frame(1));
  line.TakeBack(At(1), Frame(2));
  EXPECT_FALSE(Enter(2, 3));
  EXPECT_EQ(Due(2), (Numbers{1, 2, 3}));
}

TEST_F(LineTest, ALongQueueMarksTheFrameItself) {
  Config config;
  config.bits_per_second = 1'000'000'000;
  config.buffer_bytes = 100'000;
  config.red = {.min_bytes = 1, .max_bytes = 2};
  Make(config);
  // IPv4 with ECT(0): 14 bytes of Ethernet, 20 of IP.
  std::vector<uint8_t> frame(60);
  frame[12] = 0x08;
  frame[14] = 0x45;
  frame[15] = 2;
  EXPECT_FALSE(line_->Enter(At(0), frame));
  EXPECT_FALSE(line_->Enter(At(0), frame));
  std::vector<int> tos;
  for (; !line_->Due(At(99)).empty(); line_->Pop()) {
    tos.push_back(line_->Due(At(99))[15]);
  }
  EXPECT_EQ(tos, (std::vector<int>{2, 3}));
  EXPECT_EQ(Of(Count::k_marked), 1u);
}

}  // namespace
}  // namespace urnic::impair
