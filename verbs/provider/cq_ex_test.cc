// Extended completion queues, through libibverbs: ibv_create_cq_ex(3).

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

ibv_cq_ex* Create(ibv_context* context, ibv_cq_init_attr_ex attr) {
  errno = 0;
  return ibv_create_cq_ex(context, &attr);
}

ibv_cq_init_attr_ex Plain() {
  ibv_cq_init_attr_ex attr = {};
  attr.cqe = 100;
  attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  return attr;
}

int Start(ibv_cq_ex* cq) {
  ibv_poll_cq_attr attr = {};
  return ibv_start_poll(cq, &attr);
}

// Two ends that complete to one extended queue.
class CqExTest : public testing::Test {
 protected:
  void Make(const ibv_cq_init_attr_ex& attr) {
    cq_ = Create(device_, attr);
    ASSERT_NE(cq_, nullptr) << strerror(errno);
    PairOptions options;
    options.cq = ibv_cq_ex_to_cq(cq_);
    pair_ = std::make_unique<Pair>(device_, options);
  }
  void Unmake() {
    pair_.reset();
    if (cq_ != nullptr) {
      EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_)), 0);
    }
    cq_ = nullptr;
  }
  void TearDown() override { Unmake(); }
  End& a() { return pair_->a; }
  End& b() { return pair_->b; }
  // Sends a message from a to b: two completions, `id` of the receive, `id` + 1
  // of the send.
  void Exchange(uint64_t id) {
    EXPECT_EQ(b().PostRecv(id, {b().Sge(0, 256)}), 0);
    EXPECT_EQ(a().PostSend({a().Sge(0, 200)},
                           [&](ibv_send_wr& wr) {
                             wr.wr_id = id + 1;
                             wr.opcode = IBV_WR_SEND_WITH_IMM;
                             wr.imm_data = htonl(77);
                           }),
              0);
  }
  // Whether another thread is locked out between start_poll and end_poll. The
  // unexpected result gets a long time to appear.
  bool Locks(bool expected) {
    Exchange(1);
    while (Start(cq_) != 0) {
    }
    std::atomic<bool> entered = false;
    std::thread other([&] {
      if (Start(cq_) == 0) ibv_end_poll(cq_);
      entered = true;
    });
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::milliseconds(expected ? 100 : 20'000);
    while (!entered && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    const bool locks = !entered;
    ibv_end_poll(cq_);
    other.join();
    return locks;
  }

  OpenDevice device_;
  ibv_cq_ex* cq_ = nullptr;
  std::unique_ptr<Pair> pair_;
};

TEST_F(CqExTest, ABatchIsReadFieldByField) {
  ibv_cq_init_attr_ex attr = Plain();
  attr.cq_context = this;
  Make(attr);
  EXPECT_EQ(cq_->cqe, 128);
  EXPECT_EQ(cq_->cq_context, this);
  EXPECT_EQ(Start(cq_), ENOENT);
  EXPECT_EQ(Start(cq_), ENOENT) << "as often as one likes";
  Exchange(10);
  bool received = false;
  bool sent = false;
  for (bool open = false; !received || !sent;) {
    const int found = open ? ibv_next_poll(cq_) : Start(cq_);
    if (found == ENOENT) {
      if (open) ibv_end_poll(cq_);
      open = false;
      continue;
    }
    ASSERT_EQ(found, 0);
    open = true;
    EXPECT_EQ(cq_->status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_wc_read_vendor_err(cq_), 0u);
    EXPECT_EQ(ibv_wc_read_slid(cq_), 0u);
    EXPECT_EQ(ibv_wc_read_sl(cq_), 0);
    EXPECT_EQ(ibv_wc_read_dlid_path_bits(cq_), 0);
    if (ibv_wc_read_opcode(cq_) == IBV_WC_RECV) {
      EXPECT_EQ(cq_->wr_id, 10u);
      EXPECT_EQ(ibv_wc_read_byte_len(cq_), 200u);
      EXPECT_EQ(ibv_wc_read_qp_num(cq_), b().qp()->qp_num);
      EXPECT_EQ(ibv_wc_read_src_qp(cq_), a().qp()->qp_num);
      EXPECT_EQ(ibv_wc_read_wc_flags(cq_), unsigned{IBV_WC_WITH_IMM});
      EXPECT_EQ(ibv_wc_read_imm_data(cq_), htonl(77));
      received = true;
    } else {
      EXPECT_EQ(ibv_wc_read_opcode(cq_), IBV_WC_SEND);
      EXPECT_EQ(cq_->wr_id, 11u);
      EXPECT_EQ(ibv_wc_read_qp_num(cq_), a().qp()->qp_num);
      sent = true;
    }
    if (received && sent) ibv_end_poll(cq_);
  }
  EXPECT_EQ(Start(cq_), ENOENT);
}

TEST_F(CqExTest, ShowsErrors) {
  Make(Plain());
  EXPECT_EQ(b().PostRecv(5, {}), 0);
  EXPECT_EQ(b().To(IBV_QPS_ERR), 0);
  while (Start(cq_) != 0) {
  }
  EXPECT_EQ(cq_->status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(cq_->wr_id, 5u);
  EXPECT_EQ(ibv_next_poll(cq_), ENOENT);
  ibv_end_poll(cq_);
}

TEST_F(CqExTest, CanBeUsedAsAPlainQueue) {
  Make(Plain());
  Exchange(1);
  EXPECT_EQ(a().Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(a().Poll().status, IBV_WC_SUCCESS);
}

TEST_F(CqExTest, RaisesEvents) {
  ibv_comp_channel* channel = ibv_create_comp_channel(device_);
  ibv_cq_init_attr_ex attr = Plain();
  attr.channel = channel;
  attr.cq_context = &attr;
  Make(attr);
  ASSERT_EQ(ibv_req_notify_cq(ibv_cq_ex_to_cq(cq_), 0), 0);
  Exchange(1);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
  EXPECT_EQ(cq, ibv_cq_ex_to_cq(cq_));
  EXPECT_EQ(context, &attr);
  ibv_ack_cq_events(cq, 1);
  Unmake();
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(CqExTest, UnsupportedFieldsAreRefused) {
  for (const uint64_t flag : {IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG,
                              IBV_WC_EX_WITH_TM_INFO}) {
    ibv_cq_init_attr_ex attr = Plain();
    attr.wc_flags |= flag;
    EXPECT_EQ(Create(device_, attr), nullptr) << flag;
    EXPECT_EQ(errno, EOPNOTSUPP) << flag;
  }
  ibv_cq_init_attr_ex attr = Plain();
  attr.flags = 1u << 30;
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  EXPECT_EQ(Create(device_, attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  attr.comp_mask = 1u << 31;
  EXPECT_EQ(Create(device_, attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(CqExTest, CompletionsHaveTimestamps) {
  ibv_cq_init_attr_ex attr = Plain();
  attr.wc_flags |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                   IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  Make(attr);
  const auto now = [&] {
    ibv_values_ex values = {};
    values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    EXPECT_EQ(ibv_query_rt_values_ex(device_, &values), 0);
    return static_cast<uint64_t>(values.raw_clock.tv_nsec);
  };
  const uint64_t before = now();
  const uint64_t wall_before = static_cast<uint64_t>(time(nullptr));
  Exchange(1);
  uint64_t last = before;
  for (int i = 0; i < 2; ++i) {
    while (Start(cq_) != 0) {
    }
    const uint64_t then = ibv_wc_read_completion_ts(cq_);
    EXPECT_GE(then, last);
    EXPECT_LE(then, now());
    last = then;
    const uint64_t wall = ibv_wc_read_completion_wallclock_ns(cq_);
    EXPECT_GE(wall / 1'000'000'000 + 2, wall_before);
    EXPECT_LE(wall / 1'000'000'000, static_cast<uint64_t>(time(nullptr)) + 2);
    ibv_end_poll(cq_);
  }
  ibv_values_ex values = {};
  values.comp_mask = 2;
  EXPECT_EQ(ibv_query_rt_values_ex(device_, &values), EINVAL);
}

TEST_F(CqExTest, AnIgnoredOverrunOnlyLosesCompletions) {
  ibv_cq_init_attr_ex attr = Plain();
  attr.cqe = 2;
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  Make(attr);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(a().PostSend({a().Sge(0, 8)},
                           [&](ibv_send_wr& wr) {
                             wr.opcode = IBV_WR_RDMA_WRITE;
                             Target(wr, b(), 0);
                           }),
              0);
  }
  // Querying the state runs the engine.
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a().State(), IBV_QPS_RTS);
  EXPECT_EQ(a().Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(a().State(), IBV_QPS_RTS);
}

TEST_F(CqExTest, WrongAttributesAreRefused) {
  ibv_cq_init_attr_ex attr = Plain();
  attr.cqe = 0;
  EXPECT_EQ(Create(device_, attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr = Plain();
  attr.comp_vector = 1000;
  EXPECT_EQ(Create(device_, attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr = Plain();
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  EXPECT_EQ(Create(device_, attr), nullptr) << "no domain";
  EXPECT_EQ(errno, EINVAL);
  attr.parent_domain = ibv_alloc_pd(device_);
  EXPECT_EQ(Create(device_, attr), nullptr) << "a plain domain";
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_dealloc_pd(attr.parent_domain), 0);
  Make(Plain());
  ibv_poll_cq_attr poll = {.comp_mask = 1};
  EXPECT_EQ(ibv_start_poll(cq_, &poll), EINVAL);
  EXPECT_EQ(Start(cq_), ENOENT) << "and leaves nothing locked";
}

TEST_F(CqExTest, ThreadsKeepEachOtherOut) {
  Make(Plain());
  EXPECT_TRUE(Locks(true));
}

TEST_F(CqExTest, ASingleThreadedQueueHasNoLock) {
  ibv_cq_init_attr_ex attr = Plain();
  attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  Make(attr);
  EXPECT_TRUE(Locks(true)) << "flags count only with their mask";
  Unmake();
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  Make(attr);
  EXPECT_FALSE(Locks(false));
}

TEST_F(CqExTest, AThreadDomainRemovesTheLock) {
  ibv_pd* pd = ibv_alloc_pd(device_);
  ibv_td_init_attr td_attr = {};
  ibv_td* td = ibv_alloc_td(device_, &td_attr);
  for (const bool with_td : {false, true}) {
    ibv_parent_domain_init_attr domain_attr = {};
    domain_attr.pd = pd;
    domain_attr.td = with_td ? td : nullptr;
    ibv_pd* domain = ibv_alloc_parent_domain(device_, &domain_attr);
    ASSERT_NE(domain, nullptr);
    ibv_cq_init_attr_ex attr = Plain();
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    attr.parent_domain = domain;
    Make(attr);
    EXPECT_EQ(Locks(!with_td), !with_td);
    EXPECT_EQ(ibv_dealloc_pd(domain), EBUSY) << "the queue is in it";
    Unmake();
    EXPECT_EQ(ibv_dealloc_pd(domain), 0);
  }
  EXPECT_EQ(ibv_dealloc_td(td), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

// Several threads read batches of one queue: each completion is seen once.
TEST_F(CqExTest, ThreadsShareAQueue) {
  Make(Plain());
  constexpr int kMessages = 200;
  std::atomic<int> seen = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (seen < 2 * kMessages) {
        if (Start(cq_) != 0) {
          std::this_thread::yield();
          continue;
        }
        do {
          EXPECT_EQ(cq_->status, IBV_WC_SUCCESS);
          ++seen;
        } while (ibv_next_poll(cq_) == 0);
        ibv_end_poll(cq_);
      }
    });
  }
  for (int i = 0; i < kMessages; ++i) {
    Exchange(1);
    while (seen < 2 * (i + 1)) std::this_thread::yield();
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(seen, 2 * kMessages);
}

}  // namespace
}  // namespace urnic
