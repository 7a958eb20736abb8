// The announced limits are true. As many objects of each kind can be created
// (of queue pairs only 2^18 are tried), those of a shared table at the same
// time. The next one fails with ENOMEM. After destruction there is room again.

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <vector>

#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

class LimitsTest : public ::testing::Test {
 protected:
  LimitsTest() {
    EXPECT_EQ(ibv_query_device(device_, &attr_), 0);
    pd_ = ibv_alloc_pd(device_);
    cq_ = ibv_create_cq(device_, 16, nullptr, nullptr, 0);
  }
  ~LimitsTest() override {
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
  }

  // More would take too much memory. Beyond this, the tables are tested alone
  // (//datapath/engine:number_table_test).
  static constexpr int kMakeMost = 1 << 18;

  // `there`: how many exist already.
  template <typename T>
  static void Exhaust(int limit, int there, const std::function<T*()>& make,
                      const std::function<int(T*)>& destroy) {
    std::vector<T*> all;
    for (int round = 0; round < 2; ++round) {
      for (int i = there; i < std::min(limit, kMakeMost); ++i) {
        all.push_back(make());
        ASSERT_NE(all.back(), nullptr)
            << "number " << i << " of " << limit << ": " << strerror(errno);
      }
      for (int i = 0; i < 3 && limit <= kMakeMost; ++i) {
        errno = 0;
        EXPECT_EQ(make(), nullptr) << "beyond " << limit;
        EXPECT_EQ(errno, ENOMEM);
      }
      // Every other one first, which must not affect the rest.
      for (size_t i = 0; i < all.size(); i += 2) EXPECT_EQ(destroy(all[i]), 0);
      for (size_t i = 1; i < all.size(); i += 2) EXPECT_EQ(destroy(all[i]), 0);
      all.clear();
    }
  }

  OpenDevice device_;
  ibv_device_attr attr_ = {};
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
};

TEST_F(LimitsTest, Domains) {
  Exhaust<ibv_pd>(
      attr_.max_pd, 1, [&] { return ibv_alloc_pd(device_); }, ibv_dealloc_pd);
}

TEST_F(LimitsTest, CompletionQueues) {
  Exhaust<ibv_cq>(
      attr_.max_cq, 1,
      [&] { return ibv_create_cq(device_, 4, nullptr, nullptr, 0); },
      ibv_destroy_cq);
}

TEST_F(LimitsTest, QueuePairs) {
  Exhaust<ibv_qp>(
      attr_.max_qp, 0,
      [&] {
        ibv_qp_init_attr init = {};
        init.send_cq = init.recv_cq = cq_;
        init.cap.max_send_wr = init.cap.max_recv_wr = 4;
        init.cap.max_send_sge = init.cap.max_recv_sge = 1;
        init.qp_type = IBV_QPT_RC;
        return ibv_create_qp(pd_, &init);
      },
      ibv_destroy_qp);
}

TEST_F(LimitsTest, SharedReceiveQueues) {
  Exhaust<ibv_srq>(
      attr_.max_srq, 0,
      [&] {
        ibv_srq_init_attr init = {};
        init.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
        return ibv_create_srq(pd_, &init);
      },
      ibv_destroy_srq);
}

// They share a table.
TEST_F(LimitsTest, RegionsAndWindows) {
  std::vector<ibv_mw*> windows;
  for (int i = 0; i < attr_.max_mw; ++i) {
    windows.push_back(ibv_alloc_mw(pd_, IBV_MW_TYPE_2));
    ASSERT_NE(windows.back(), nullptr) << "number " << i;
  }
  uint8_t memory[64];
  Exhaust<ibv_mr>(
      attr_.max_mr, 0,
      [&] {
        return ibv_reg_mr(pd_, memory, sizeof(memory), IBV_ACCESS_ON_DEMAND);
      },
      ibv_dereg_mr);
  for (ibv_mw* window : windows) EXPECT_EQ(ibv_dealloc_mw(window), 0);
}

TEST_F(LimitsTest, AddressHandles) {
  ibv_ah_attr attr = {};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.sgid_index = kGidIndexIpv4;
  ASSERT_EQ(ibv_query_gid(device_, 1, kGidIndexIpv4, &attr.grh.dgid), 0);
  Exhaust<ibv_ah>(
      attr_.max_ah, 0, [&] { return ibv_create_ah(pd_, &attr); },
      ibv_destroy_ah);
}

// As many groups, and as many members of one, as announced.
TEST_F(LimitsTest, Groups) {
  const auto datagrams = [&] {
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = cq_;
    init.cap.max_send_wr = init.cap.max_recv_wr = 1;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    init.qp_type = IBV_QPT_UD;
    return ibv_create_qp(pd_, &init);
  };
  const auto group = [](int number) {
    ibv_gid gid = {};  // 239.x.x.x
    gid.raw[10] = gid.raw[11] = 0xff;
    gid.raw[12] = 239;
    gid.raw[14] = static_cast<uint8_t>(number >> 8);
    gid.raw[15] = static_cast<uint8_t>(number);
    return gid;
  };
  ibv_qp* const qp = datagrams();
  ASSERT_NE(qp, nullptr);
  for (int i = 0; i < attr_.max_mcast_grp; ++i) {
    const ibv_gid gid = group(i);
    ASSERT_EQ(ibv_attach_mcast(qp, &gid, 0), 0) << i;
  }
  const ibv_gid beyond = group(attr_.max_mcast_grp);
  EXPECT_EQ(ibv_attach_mcast(qp, &beyond, 0), ENOMEM);
  // It has one member already.
  const ibv_gid first = group(0);
  std::vector<ibv_qp*> members;
  for (int i = 1; i < attr_.max_mcast_qp_attach; ++i) {
    members.push_back(datagrams());
    ASSERT_EQ(ibv_attach_mcast(members.back(), &first, 0), 0) << i;
  }
  ibv_qp* const late = datagrams();
  EXPECT_EQ(ibv_attach_mcast(late, &first, 0), ENOMEM);
  EXPECT_EQ(ibv_attach_mcast(qp, &first, 0), 0) << "it is a member already";
  EXPECT_EQ(ibv_detach_mcast(members.back(), &first, 0), 0);
  EXPECT_EQ(ibv_destroy_qp(members.back()), 0);
  members.back() = late;
  EXPECT_EQ(ibv_attach_mcast(late, &first, 0), 0);
  for (ibv_qp* member : members) {
    EXPECT_EQ(ibv_detach_mcast(member, &first, 0), 0);
    EXPECT_EQ(ibv_destroy_qp(member), 0);
  }
  for (int i = 0; i < attr_.max_mcast_grp; ++i) {
    const ibv_gid gid = group(i);
    EXPECT_EQ(ibv_detach_mcast(qp, &gid, 0), 0) << i;
  }
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

// The largest of each kind; one more of anything is EINVAL.
TEST_F(LimitsTest, Sizes) {
  ibv_cq* const cq = ibv_create_cq(device_, attr_.max_cqe, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(ibv_resize_cq(cq, attr_.max_cqe + 1), EINVAL);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  errno = 0;
  EXPECT_EQ(ibv_create_cq(device_, attr_.max_cqe + 1, nullptr, nullptr, 0),
            nullptr);
  EXPECT_EQ(errno, EINVAL);

  const auto queue_pair = [&](int wr, int sge) {
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = cq_;
    init.cap.max_send_wr = init.cap.max_recv_wr = static_cast<uint32_t>(wr);
    init.cap.max_send_sge = init.cap.max_recv_sge = static_cast<uint32_t>(sge);
    init.qp_type = IBV_QPT_RC;
    errno = 0;
    return ibv_create_qp(pd_, &init);
  };
  ibv_qp* const qp = queue_pair(attr_.max_qp_wr, attr_.max_sge);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(queue_pair(attr_.max_qp_wr + 1, 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(queue_pair(1, attr_.max_sge + 1), nullptr);
  EXPECT_EQ(errno, EINVAL);

  const auto shared = [&](int wr, int sge) {
    ibv_srq_init_attr init = {};
    init.attr = {.max_wr = static_cast<uint32_t>(wr),
                 .max_sge = static_cast<uint32_t>(sge),
                 .srq_limit = 0};
    errno = 0;
    return ibv_create_srq(pd_, &init);
  };
  ibv_srq* const srq = shared(attr_.max_srq_wr, attr_.max_srq_sge);
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(shared(attr_.max_srq_wr + 1, 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(shared(1, attr_.max_srq_sge + 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace urnic
