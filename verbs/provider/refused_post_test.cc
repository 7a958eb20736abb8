// What is told of a refused post, query or advice, beyond its errno: a code and
// a sentence in the error log.

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

TEST(RefusedQueryTest, ThePortIsNamed) {
  const auto lines = LogOf([](OpenDevice& device) {
    ibv_port_attr port = {};
    EXPECT_EQ(ibv_query_port(device, 3, &port), EINVAL);
  });
  EXPECT_THAT(lines,
              ElementsAre(AllOf(HasSubstr("URN2001"),
                                HasSubstr("query_port: port_num 3, the device "
                                          "has only port 1"))));
}

// Of ibv_query_device_ex(), the inline function of verbs.h itself refuses it.
TEST(RefusedQueryTest, TheMaskIsNamed) {
  const auto lines = LogOf([](OpenDevice& device) {
    ibv_values_ex values = {};
    values.comp_mask = 1 << 7;
    EXPECT_EQ(ibv_query_rt_values_ex(device, &values), EINVAL);
  });
  EXPECT_THAT(lines,
              ElementsAre(AllOf(
                  HasSubstr("URN2001"),
                  HasSubstr("query_rt_values_ex: comp_mask 0x80, only 0x1 is "
                            "known"))));
}

TEST(RefusedQueryTest, ABasicQueueHasNoNumber) {
  const auto lines = LogOfEnd([](End& end) {
    ibv_srq_init_attr attributes = {};
    attributes.attr.max_wr = attributes.attr.max_sge = 1;
    ibv_srq* const srq = ibv_create_srq(end.pd(), &attributes);
    ASSERT_NE(srq, nullptr);
    uint32_t number = 0;
    EXPECT_EQ(ibv_get_srq_num(srq, &number), EINVAL);
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
  });
  EXPECT_THAT(lines, ElementsAre(AllOf(
                         HasSubstr("URN2001"), HasSubstr("get_srq_num: srq "),
                         HasSubstr(" is of type BASIC, only XRC has a "
                                   "number"))));
}

TEST(RefusedAdviceTest, EachReasonIsNamed) {
  const auto lines = LogOfEnd([](End& end) {
    const auto advise = [&](ibv_sge sge, uint32_t advice, uint32_t flags,
                            uint32_t count) {
      return ibv_advise_mr(end.pd(), static_cast<ibv_advise_mr_advice>(advice),
                           flags, &sge, count);
    };
    ibv_sge sge = end.Sge(0, 8);
    EXPECT_EQ(advise(sge, 77, 0, 1), EOPNOTSUPP);
    EXPECT_EQ(advise(sge, IBV_ADVISE_MR_ADVICE_PREFETCH, 1u << 8, 1), EINVAL);
    EXPECT_EQ(advise(sge, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 0), EINVAL);
    sge.length = 1 << 30;
    EXPECT_EQ(advise(sge, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 1), EFAULT);
    sge.length = 8;
    sge.lkey ^= 1;
    EXPECT_EQ(advise(sge, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 1), EFAULT);
  });
  EXPECT_THAT(
      lines,
      ElementsAre(
          AllOf(HasSubstr("URN2007"),
                HasSubstr("advise_mr: advice 77, only 0 to 2 are built")),
          AllOf(HasSubstr("URN2001"),
                HasSubstr("advise_mr: num_sge 1, flags 0x100")),
          AllOf(HasSubstr("URN2001"),
                HasSubstr("advise_mr: num_sge 0, flags 0x0")),
          AllOf(HasSubstr("URN2008"), HasSubstr("length 1073741824: the range "
                                                "is not inside the region")),
          AllOf(HasSubstr("URN2008"),
                HasSubstr("length 8: no region has this lkey"))));
}

}  // namespace
}  // namespace urnic
