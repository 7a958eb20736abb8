// What is told of a refused post, beyond its errno: a code and a sentence in
// the error log.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "verbs/provider/testing/logged.h"
#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The lines of the log of a program that does `use(end)`.
std::vector<std::string> LogOfEnd(const std::function<void(End&)>& use,
                                  const PairOptions& options = {}) {
  return LogOf([&](OpenDevice& device) {
    End end(device, options);
    use(end);
  });
}

TEST(RefusedPostTest, TheStateOfTheQueuePairIsNamed) {
  uint32_t qpn = 0;
  const auto lines = LogOfEnd([&](End& end) {
    ibv_send_wr send = {};
    ibv_send_wr* bad_send = nullptr;
    ibv_recv_wr receive = {};
    ibv_recv_wr* bad_receive = nullptr;
    qpn = end.qp()->qp_num;
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(ibv_post_send(end.qp(), &send, &bad_send), EINVAL);
    EXPECT_EQ(ibv_post_recv(end.qp(), &receive, &bad_receive), EINVAL);
    EXPECT_EQ(bad_receive, &receive);
  });
  const std::string lqpn = "\"lqpn\":" + std::to_string(qpn);
  EXPECT_THAT(
      lines,
      ElementsAre(
          AllOf(HasSubstr("URN2001"), HasSubstr(lqpn),
                HasSubstr("post_send: the queue pair is not in state RTS")),
          AllOf(HasSubstr("URN2001"), HasSubstr(lqpn),
                HasSubstr("post_recv: the queue pair is in state RESET"))));
}

TEST(RefusedPostTest, TheLimitIsNamed) {
  const auto lines = LogOfEnd([](End& end) {
    ASSERT_EQ(end.ToInit(), 0);
    std::vector<ibv_sge> sges(100, end.Sge(0, 1));
    ibv_recv_wr receive = {};
    receive.sg_list = sges.data();
    receive.num_sge = 100;
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_recv(end.qp(), &receive, &bad), EINVAL);
  });
  EXPECT_THAT(lines, ElementsAre(HasSubstr("post_recv: num_sge 100, "
                                           "max_recv_sge is ")));
}

// A program that posts until the queue is full makes no mistake.
TEST(RefusedPostTest, AFullQueueIsNoError) {
  const auto lines = LogOfEnd([](End& end) {
    ASSERT_EQ(end.ToInit(), 0);
    ibv_recv_wr receive = {};
    ibv_recv_wr* bad = nullptr;
    int error = 0;
    while (error == 0) error = ibv_post_recv(end.qp(), &receive, &bad);
    EXPECT_EQ(error, ENOMEM);
  });
  EXPECT_THAT(lines, ElementsAre());
}

TEST(RefusedPostTest, AListThatIsBuiltCallByCallNamesItsMistake) {
  PairOptions options;
  options.send_ops = IBV_QP_EX_WITH_SEND;
  const auto lines = LogOfEnd(
      [](End& end) {
        ibv_qp_ex* const ex = ibv_qp_to_qp_ex(end.qp());
        ibv_wr_start(ex);
        ibv_wr_send(ex);
        EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
      },
      options);
  EXPECT_THAT(
      lines,
      ElementsAre(AllOf(HasSubstr("URN2001"),
                        HasSubstr("wr_complete: the queue pair is not in state "
                                  "RTS"))));
}

TEST(RefusedPostTest, ABindNamesItsMistake) {
  const auto lines = LogOfEnd([](End& end) {
    ibv_mw* const mw = ibv_alloc_mw(end.pd(), IBV_MW_TYPE_1);
    ibv_mw_bind bind = {};
    EXPECT_EQ(ibv_bind_mw(end.qp(), mw, &bind), EINVAL);
    EXPECT_EQ(ibv_dealloc_mw(mw), 0);
  });
  EXPECT_THAT(lines, ElementsAre(AllOf(
                         HasSubstr("URN2001"),
                         HasSubstr("bind_mw: the queue pair is not in state "
                                   "RTS"))));
}

}  // namespace
}  // namespace urnic
