// The arithmetic of times.

#include <gtest/gtest.h>

#include "transport/cm/messages.h"

namespace urnic::cm {
namespace {

//= IBTA 12.7
TEST(TimesTest, ACodeIsAPowerOfTwoOfFourMicroseconds) {
  EXPECT_EQ(CodeTime(0), Duration::Nanoseconds(4096));
  EXPECT_EQ(CodeTime(20), Duration::Nanoseconds(4294967296));
  EXPECT_EQ(CodeTime(31), Duration::Nanoseconds(4096ll << 31));
}

// The examples are Linux' for its RoCE path (life time 16) and other delays.
TEST(TimesTest, TheAckTimeoutCoversPathAndPeer) {
  EXPECT_EQ(AckTimeoutCode(15, 16), 17);  // as captured
  EXPECT_EQ(AckTimeoutCode(16, 16), 18);
  EXPECT_EQ(AckTimeoutCode(17, 16), 18);
  EXPECT_EQ(AckTimeoutCode(18, 16), 19);
  EXPECT_EQ(AckTimeoutCode(19, 16), 19);
  EXPECT_EQ(AckTimeoutCode(31, 31), 31);
  EXPECT_EQ(AckTimeoutCode(0, 0), 2);
}

}  // namespace
}  // namespace urnic::cm
