#include "transport/cc/dctcp.h"

#include <gtest/gtest.h>

#include "transport/base/random.h"

namespace urnic::cc {
namespace {

double Alpha(const Dctcp& dctcp) {
  return static_cast<double>(dctcp.alpha) / Dctcp::kAll;
}

//= RFC 8257 3.3
TEST(DctcpTest, AlphaIsTheAverageOfTheMarkedFractions) {
  Random random(3);
  Dctcp dctcp;
  double alpha = 1;
  for (int round = 0; round < 5000; ++round) {
    double acked = 0, marked = 0;
    const uint64_t acks = 1 + random.Below(20);
    const uint64_t level = random.Below(101);
    for (uint64_t i = 1; i <= acks; ++i) {
      const auto bytes = static_cast<uint32_t>(random.Below(100000));
      const uint32_t of_these = random.Below(100) < level ? bytes : 0;
      dctcp.OnAck(bytes, of_these, i == acks);
      acked += bytes;
      marked += of_these;
    }
    if (acked != 0) alpha = alpha * 15 / 16 + marked / acked / 16;
    ASSERT_NEAR(Alpha(dctcp), alpha, 1e-4);
  }
}

//= RFC 8257 3.3
TEST(DctcpTest, WithoutMarksAlphaBecomesNearlyZeroAndWithMarksOne) {
  Dctcp dctcp;
  EXPECT_EQ(Alpha(dctcp), 1);
  for (int i = 0; i < 300; ++i) dctcp.OnAck(1000, 0, true);
  EXPECT_LT(Alpha(dctcp), 1e-4);
  EXPECT_GT(dctcp.AfterMarks(1'000'000), 999'900u);
  for (int i = 0; i < 300; ++i) dctcp.OnAck(1000, 1000, true);
  EXPECT_GT(Alpha(dctcp), 0.9999);
  EXPECT_NEAR(static_cast<double>(dctcp.AfterMarks(1'000'000)), 500'000, 100);
}

TEST(DctcpTest, ARoundWithoutDataSaysNothing) {
  Dctcp dctcp;
  dctcp.OnAck(0, 0, true);
  EXPECT_EQ(Alpha(dctcp), 1);
}

TEST(DctcpTest, MoreMarkedThanAcknowledgedCountsAsAll) {
  Dctcp dctcp;
  for (int i = 0; i < 100; ++i) dctcp.OnAck(10, UINT32_MAX, true);
  EXPECT_LE(dctcp.alpha, Dctcp::kAll);
}

}  // namespace
}  // namespace urnic::cc
