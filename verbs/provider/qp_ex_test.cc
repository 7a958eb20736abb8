// Work requests that are built call by call: ibv_wr_post(3).

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <memory>

#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

constexpr uint64_t kRcOps =
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
    IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV |
    IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV |
    IBV_QP_EX_WITH_ATOMIC_WRITE;

class QpExTest : public testing::Test {
 protected:
  QpExTest() {
    PairOptions options;
    options.send_ops = kRcOps;
    options.sq_sig_all = 0;
    pair_ = std::make_unique<Pair>(device_, options);
    ex_ = ibv_qp_to_qp_ex(a().qp());
  }
  End& a() { return pair_->a; }
  End& b() { return pair_->b; }
  // Starts a list whose first request is `id`.
  void Start(uint64_t id, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_wr_start(ex_);
    ex_->wr_id = id;
    ex_->wr_flags = flags;
  }
  void Data(size_t offset, uint32_t bytes) {
    ibv_wr_set_sge(ex_, a().mr()->lkey, a().address(offset), bytes);
  }
  void ExpectSent(uint64_t id, ibv_wc_opcode opcode) {
    const ibv_wc wc = a().Poll();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(wc.opcode, opcode);
  }

  OpenDevice device_;
  std::unique_ptr<Pair> pair_;
  ibv_qp_ex* ex_ = nullptr;
};

TEST_F(QpExTest, AnExtendedQueuePairIsRecognized) {
  EXPECT_NE(ex_, nullptr);
  Pair plain(device_);
  EXPECT_EQ(ibv_qp_to_qp_ex(plain.a.qp()), nullptr);
}

TEST_F(QpExTest, SendsListsImmediateAndInlineData) {
  for (uint64_t i = 0; i < 3; ++i) b().PostRecv(i, {b().Sge(i * 4096, 4096)});
  ibv_mw* mw = ibv_alloc_mw(b().pd(), IBV_MW_TYPE_2);
  std::memcpy(a().memory(), "abcdefgh", 8);
  Start(1);
  ibv_wr_send(ex_);
  Data(0, 8);
  ex_->wr_id = 2;
  ibv_wr_send_imm(ex_, htonl(77));
  const ibv_sge two[] = {a().Sge(4, 4), a().Sge(0, 4)};
  ibv_wr_set_sge_list(ex_, 2, two);
  ex_->wr_id = 3;
  ex_->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
  ibv_wr_send(ex_);
  char part[] = "inline";
  const ibv_data_buf parts[] = {{part, 6}, {part, 0}, {part + 2, 2}};
  ibv_wr_set_inline_data_list(ex_, 3, parts);
  EXPECT_EQ(ibv_wr_complete(ex_), 0);
  for (uint64_t i = 1; i <= 3; ++i) ExpectSent(i, IBV_WC_SEND);
  EXPECT_EQ(b().Poll().byte_len, 8u);
  const ibv_wc imm = b().Poll();
  EXPECT_EQ(imm.imm_data, htonl(77));
  EXPECT_EQ(b().Poll().byte_len, 8u);
  EXPECT_EQ(std::memcmp(b().memory(), "abcdefgh", 8), 0);
  EXPECT_EQ(std::memcmp(b().memory() + 4096, "efghabcd", 8), 0);
  EXPECT_EQ(std::memcmp(b().memory() + 8192, "inlineli", 8), 0);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(QpExTest, AccessesThePeersMemory) {
  const uint32_t rkey = b().mr()->rkey;
  std::memcpy(a().memory(), "abcdefgh", 8);
  uint64_t word = 40;
  std::memcpy(b().memory() + 64, &word, 8);
  b().PostRecv(9, {});
  Start(1);
  ibv_wr_rdma_write(ex_, rkey, b().address(0));
  Data(0, 8);
  ex_->wr_id = 2;
  ibv_wr_rdma_write_imm(ex_, rkey, b().address(8), htonl(5));
  char text[] = "12345678";
  ibv_wr_set_inline_data(ex_, text, 8);
  ex_->wr_id = 3;
  ibv_wr_rdma_read(ex_, rkey, b().address(0));
  Data(1024, 16);
  ex_->wr_id = 4;
  ibv_wr_atomic_fetch_add(ex_, rkey, b().address(64), 2);
  Data(2048, 8);
  ex_->wr_id = 5;
  ibv_wr_atomic_cmp_swp(ex_, rkey, b().address(64), 42, 7);
  Data(2056, 8);
  ex_->wr_id = 6;
  const uint64_t value = 0x1122334455667788;
  ibv_wr_atomic_write(ex_, rkey, b().address(72), &value);
  EXPECT_EQ(ibv_wr_complete(ex_), 0);
  ExpectSent(1, IBV_WC_RDMA_WRITE);
  ExpectSent(2, IBV_WC_RDMA_WRITE);
  ExpectSent(3, IBV_WC_RDMA_READ);
  ExpectSent(4, IBV_WC_FETCH_ADD);
  ExpectSent(5, IBV_WC_COMP_SWAP);
  ExpectSent(6, IBV_WC_ATOMIC_WRITE);
  EXPECT_EQ(b().Poll().imm_data, htonl(5));
  EXPECT_EQ(std::memcmp(a().memory() + 1024, "abcdefgh12345678", 16), 0);
  const auto at = [](const uint8_t* p) {
    uint64_t v;
    std::memcpy(&v, p, 8);
    return v;
  };
  EXPECT_EQ(at(a().memory() + 2048), 40u);
  EXPECT_EQ(at(a().memory() + 2056), 42u);
  EXPECT_EQ(at(b().memory() + 64), 7u);
  EXPECT_EQ(at(b().memory() + 72), value);
}

TEST_F(QpExTest, APlainPostOfAnAtomicWriteDoesTheSame) {
  uint64_t value = 77;
  std::memcpy(a().memory(), &value, 8);
  for (const unsigned flags : {0u, unsigned{IBV_SEND_INLINE}}) {
    EXPECT_EQ(a().PostSend({a().Sge(0, 8)},
                           [&](ibv_send_wr& wr) {
                             wr.opcode = IBV_WR_ATOMIC_WRITE;
                             wr.send_flags |= flags;
                             Target(wr, b(), flags == 0 ? 0 : 8);
                           }),
              0);
    EXPECT_EQ(a().Poll().opcode, IBV_WC_ATOMIC_WRITE);
  }
  EXPECT_EQ(std::memcmp(b().memory(), a().memory(), 8), 0);
  EXPECT_EQ(std::memcmp(b().memory() + 8, a().memory(), 8), 0);
}

TEST_F(QpExTest, ARefusedOrAbortedListPostsNothing) {
  const auto refused = [&](const std::function<void()>& build) {
    Start(1);
    ibv_wr_rdma_write(ex_, b().mr()->rkey, b().address(0));
    Data(0, 8);
    build();
    ibv_wr_rdma_write(ex_, b().mr()->rkey, b().address(0));
    Data(0, 8);
    return ibv_wr_complete(ex_);
  };
  const uint32_t sges = a().cap().max_send_sge + 1;
  const std::vector<ibv_sge> many(sges, a().Sge(0, 1));
  std::vector<char> much(a().cap().max_inline_data + 1);
  EXPECT_EQ(refused([&] {
              ibv_wr_send(ex_);
              ibv_wr_set_sge_list(ex_, sges, many.data());
            }),
            EINVAL);
  EXPECT_EQ(refused([&] {
              ibv_wr_send(ex_);
              ibv_wr_set_inline_data(ex_, much.data(), much.size());
            }),
            EINVAL);
  EXPECT_EQ(refused([&] {
              ex_->wr_flags = 1u << 20;
              ibv_wr_send(ex_);
              ex_->wr_flags = 0;
            }),
            EINVAL);
  EXPECT_EQ(refused([&] {
              for (uint32_t i = 0; i < a().cap().max_send_wr; ++i) {
                ibv_wr_send(ex_);
              }
            }),
            ENOMEM);
  Start(2);
  ibv_wr_send(ex_);
  Data(0, 8);
  ibv_wr_abort(ex_);
  Start(3);
  EXPECT_EQ(ibv_wr_complete(ex_), 0) << "an empty list";
  EXPECT_TRUE(a().Quiet());
  Start(4);
  ibv_wr_rdma_write(ex_, b().mr()->rkey, b().address(0));
  Data(0, 8);
  EXPECT_EQ(ibv_wr_complete(ex_), 0);
  ExpectSent(4, IBV_WC_RDMA_WRITE);
}

TEST_F(QpExTest, PostsOnlyInTheStatesForIt) {
  EXPECT_EQ(a().To(IBV_QPS_RESET), 0);
  Start(1);
  ibv_wr_send(ex_);
  EXPECT_EQ(ibv_wr_complete(ex_), EINVAL);
  EXPECT_EQ(a().ToInit(), 0);
  EXPECT_EQ(a().To(IBV_QPS_ERR), 0);
  Start(2);
  ibv_wr_send(ex_);
  EXPECT_EQ(ibv_wr_complete(ex_), 0);
  EXPECT_EQ(a().Poll().status, IBV_WC_WR_FLUSH_ERR);
}

// --- Creation ----------------------------------------------------------------

TEST(QpExCreateTest, AcceptsTheOperationsOfTheService) {
  OpenDevice device;
  ibv_pd* pd = ibv_alloc_pd(device);
  ibv_cq* cq = ibv_create_cq(device, 16, nullptr, nullptr, 0);
  const auto create =
      [&](ibv_qp_type type, uint64_t ops,
          const std::function<void(ibv_qp_init_attr_ex&)>& change = nullptr) {
        ibv_qp_init_attr_ex attr = {};
        attr.send_cq = attr.recv_cq = cq;
        attr.cap = {.max_send_wr = 4,
                    .max_recv_wr = 4,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
        attr.qp_type = type;
        attr.pd = pd;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.send_ops_flags = ops;
        if (change) change(attr);
        errno = 0;
        ibv_qp* qp = ibv_create_qp_ex(device, &attr);
        if (qp == nullptr) return errno;
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
        return 0;
      };
  constexpr uint64_t kSends =
      IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  EXPECT_EQ(create(IBV_QPT_RC, kRcOps), 0);
  EXPECT_EQ(create(IBV_QPT_RC, 0), 0);
  EXPECT_EQ(create(IBV_QPT_RC, kRcOps | IBV_QP_EX_WITH_TSO), EOPNOTSUPP);
  EXPECT_EQ(create(IBV_QPT_RC, uint64_t{1} << 40), EOPNOTSUPP);
  EXPECT_EQ(create(IBV_QPT_UC,
                   kSends | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_BIND_MW),
            0);
  EXPECT_EQ(create(IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ), EOPNOTSUPP);
  EXPECT_EQ(create(IBV_QPT_UD, kSends), 0);
  EXPECT_EQ(create(IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE), EOPNOTSUPP);
  EXPECT_EQ(create(IBV_QPT_RC, kSends,
                   [](auto& a) { a.comp_mask |= IBV_QP_INIT_ATTR_RX_HASH; }),
            EOPNOTSUPP);
  EXPECT_EQ(create(IBV_QPT_RC, kSends,
                   [](auto& a) { a.comp_mask &= ~IBV_QP_INIT_ATTR_PD; }),
            EINVAL);
  EXPECT_EQ(create(IBV_QPT_RC, kSends, [](auto& a) { a.pd = nullptr; }),
            EINVAL);
  EXPECT_EQ(
      create(IBV_QPT_RC, kSends,
             [](auto& a) { a.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS; }),
      0);
  EXPECT_EQ(create(IBV_QPT_RC, kSends,
                   [](auto& a) {
                     a.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
                     a.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
                   }),
            EOPNOTSUPP);
  EXPECT_EQ(
      create(IBV_QPT_RC, kSends, [](auto& a) { a.cap.max_send_wr = 1u << 30; }),
      EINVAL);
  OpenDevice other;
  EXPECT_EQ(
      create(IBV_QPT_RC, kSends, [&](auto& a) { a.pd = ibv_alloc_pd(other); }),
      EINVAL)
      << "the domain is of another context";
  EXPECT_EQ(ibv_destroy_cq(cq), 0) << "nothing was left";
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

}  // namespace
}  // namespace urnic
