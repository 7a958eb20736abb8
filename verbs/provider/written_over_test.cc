// Objects that the program has written over: they are fenced off, named in the
// error log, and shown; the rest of the program runs on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "verbs/provider/testing/logged.h"
#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

uint8_t* Before(void* object) { return static_cast<uint8_t*>(object) - 8; }

void OverrunBeforeAQueuePair(OpenDevice& device) {
  // Its destructor cannot destroy what was written over.
  auto* const hurt = new Pair(device);
  Pair well(device);
  std::memset(Before(hurt->a.qp()), 'A', 8);
  EXPECT_EQ(hurt->a.PostSend({hurt->a.Sge(0, 8)}), EIO);
  EXPECT_EQ(hurt->a.PostSend({hurt->a.Sge(0, 8)}), EIO) << "fenced off";
  EXPECT_EQ(hurt->a.PostRecv(1, {}), EIO);
  EXPECT_EQ(hurt->a.To(IBV_QPS_ERR), EIO);
  EXPECT_EQ(ibv_destroy_qp(hurt->a.qp()), EIO);
  EXPECT_EQ(ibv_destroy_cq(hurt->a.cq()), EBUSY) << "the queue pair uses it";
  EXPECT_EQ(std::memcmp(Before(hurt->a.qp()), "BAD---QP", 8), 0);
  EXPECT_EQ(well.b.PostRecv(1, {well.b.Sge(0, 8)}), 0);
  EXPECT_EQ(well.a.PostSend({well.a.Sge(0, 8)}), 0);
  EXPECT_EQ(well.a.Poll().status, IBV_WC_SUCCESS);
  // The peer learns it as from any queue pair that failed.
  EXPECT_EQ(hurt->b.PostSend({hurt->b.Sge(0, 8)}), 0);
  EXPECT_EQ(hurt->b.Poll().status, IBV_WC_RETRY_EXC_ERR);
}

void OverrunBehindACompletionQueue(OpenDevice& device) {
  ibv_cq* const cq = ibv_create_cq(device, 8, nullptr, nullptr, 0);
  auto* end = reinterpret_cast<uint8_t*>(cq);
  while (std::memcmp(end, "CQ-uRNIC", 8) != 0) end += 8;
  end[0] ^= 1;
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0) << "polling looks before it alone";
  EXPECT_EQ(ibv_resize_cq(cq, 16), EIO);
  EXPECT_LT(ibv_poll_cq(cq, 1, &wc), 0);
  EXPECT_EQ(errno, EIO);
}

TEST(WrittenOverTest, OneObjectFailsAndTheRestRunsOn) {
  const auto lines = LogOf([](OpenDevice& device) {
    OverrunBeforeAQueuePair(device);
    OverrunBehindACompletionQueue(device);
    Pair pair(device);
    EXPECT_EQ(pair.b.PostRecv(1, {pair.b.Sge(0, 8)}), 0);
    EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), 0);
    EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
  });
  EXPECT_THAT(lines,
              Contains(AllOf(HasSubstr("URN1909"), HasSubstr("\"lqpn\":"),
                             HasSubstr("before it stands 'AAAAAAAA'"))));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("URN1909"),
                                    HasSubstr("behind it 'BQ-uRNIC' instead of "
                                              "'CQ-uRNIC'"))));
  EXPECT_THAT(lines, Contains(HasSubstr("URN2018")));
}

TEST(WrittenOverTest, EveryFlippedBitBeforeAnObjectIsFound) {
  OpenDevice device;
  for (int bit = 0; bit < 64; ++bit) {
    ibv_pd* const pd = ibv_alloc_pd(device);
    Before(pd)[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_EQ(ibv_dealloc_pd(pd), EIO) << bit;
  }
}

}  // namespace
}  // namespace urnic
