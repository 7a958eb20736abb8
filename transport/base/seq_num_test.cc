#include "transport/base/seq_num.h"

#include <gtest/gtest.h>

namespace urnic {
namespace {

//= RFC 9293 3.4
TEST(SeqNumTest, OrderIsThatOfTheShorterWayRoundTheCircle) {
  for (const uint32_t at : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    const SeqNum a(at);
    EXPECT_EQ(a - a, 0);
    EXPECT_EQ((a + 1) - a, 1);
    EXPECT_EQ(a - (a + 1), -1);
    EXPECT_EQ((a + 0x7fffffff) - a, 0x7fffffff);
    EXPECT_LT((a + 0x80000000) - a, 0);
    EXPECT_EQ(Later(a, a + 5), a + 5);
    EXPECT_EQ(Later(a + 5, a), a + 5);
    EXPECT_EQ(Earlier(a, a + 5), a);
    EXPECT_EQ(Earlier(a + 5, a), a);
  }
  EXPECT_EQ((SeqNum(0xfffffffe) + 4).value(), 2u);
}

}  // namespace
}  // namespace urnic
