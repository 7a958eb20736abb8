// Every operation of a reliable connection, with its data, through the
// distribution's libibverbs on a loopback device.

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <tuple>

#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

class TransferTest : public testing::Test {
 protected:
  void Make(const PairOptions& options = {}) {
    pair_ = std::make_unique<Pair>(device_, options);
    std::iota(a().memory(), a().memory() + End::kBytes, uint8_t{1});
  }
  End& a() { return pair_->a; }
  End& b() { return pair_->b; }
  void ExpectSame(size_t from, size_t to, size_t bytes) {
    EXPECT_EQ(std::memcmp(a().memory() + from, b().memory() + to, bytes), 0)
        << bytes << " bytes";
  }
  void ExpectDone(End& end, ibv_wc_opcode opcode) {
    const ibv_wc wc = end.Poll();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
    EXPECT_EQ(wc.opcode, opcode);
    EXPECT_EQ(wc.qp_num, end.qp()->qp_num);
  }

  OpenDevice device_;
  std::unique_ptr<Pair> pair_;
};

constexpr uint32_t kSizes[] = {0,    1,    7,    8,     9,     255,    1023,
                               1024, 1025, 4096, 65536, 65539, 1 << 20};

class SizeTest : public TransferTest,
                 public testing::WithParamInterface<std::tuple<ibv_mtu, int>> {
 protected:
  void SetUp() override {
    PairOptions options;
    options.mtu = std::get<0>(GetParam());
    options.gid_index = std::get<1>(GetParam());
    Make(options);
  }
};

TEST_P(SizeTest, SendArrives) {
  for (uint32_t bytes : kSizes) {
    std::memset(b().memory(), 0, End::kBytes);
    EXPECT_EQ(b().PostRecv(bytes, {b().Sge(8, bytes)}), 0);
    EXPECT_EQ(a().PostSend({a().Sge(3, bytes)}), 0);
    const ibv_wc wc = b().Poll();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_RECV);
    EXPECT_EQ(wc.byte_len, bytes);
    EXPECT_EQ(wc.wr_id, bytes);
    EXPECT_EQ(wc.wc_flags, 0u);
    ExpectDone(a(), IBV_WC_SEND);
    ExpectSame(3, 8, bytes);
    EXPECT_EQ(b().memory()[8 + bytes], 0) << "not a byte more";
  }
}

TEST_P(SizeTest, WriteArrivesWithoutACompletionAtThePeer) {
  for (uint32_t bytes : kSizes) {
    std::memset(b().memory(), 0, End::kBytes);
    EXPECT_EQ(a().PostSend({a().Sge(1, bytes)},
                           [&](ibv_send_wr& wr) {
                             wr.opcode = IBV_WR_RDMA_WRITE;
                             Target(wr, b(), 16);
                           }),
              0);
    ExpectDone(a(), IBV_WC_RDMA_WRITE);
    ExpectSame(1, 16, bytes);
    EXPECT_EQ(b().memory()[16 + bytes], 0);
  }
  EXPECT_TRUE(b().Quiet());
}

TEST_P(SizeTest, ReadFetchesTheData) {
  for (uint32_t bytes : kSizes) {
    std::memset(b().memory(), 0, End::kBytes);
    EXPECT_EQ(b().PostSend({b().Sge(5, bytes)},
                           [&](ibv_send_wr& wr) {
                             wr.opcode = IBV_WR_RDMA_READ;
                             Target(wr, a(), 2);
                           }),
              0);
    const ibv_wc wc = b().Poll();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
    EXPECT_EQ(wc.opcode, IBV_WC_RDMA_READ);
    EXPECT_EQ(wc.byte_len, bytes);
    ExpectSame(2, 5, bytes);
    EXPECT_EQ(b().memory()[5 + bytes], 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Paths, SizeTest,
    testing::Combine(testing::Values(IBV_MTU_256, IBV_MTU_1024, IBV_MTU_4096),
                     testing::Values(kGidIndexIpv4, kGidIndexIpv6)));

TEST_F(TransferTest, ImmediateDataKeepsItsByteOrder) {
  Make();
  EXPECT_EQ(b().PostRecv(1, {b().Sge(0, 16)}), 0);
  EXPECT_EQ(a().PostSend({a().Sge(0, 4)},
                         [](ibv_send_wr& wr) {
                           wr.opcode = IBV_WR_SEND_WITH_IMM;
                           wr.imm_data = 0x12345678;
                         }),
            0);
  ibv_wc wc = b().Poll();
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.wc_flags, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(wc.imm_data, 0x12345678u);
  ExpectDone(a(), IBV_WC_SEND);

  EXPECT_EQ(b().PostRecv(2, {}), 0);
  EXPECT_EQ(a().PostSend({a().Sge(0, 100)},
                         [&](ibv_send_wr& wr) {
                           wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
                           wr.imm_data = 0xabcdef01;
                           Target(wr, b(), 64);
                         }),
            0);
  wc = b().Poll();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc.wr_id, 2u);
  EXPECT_EQ(wc.byte_len, 100u);
  EXPECT_EQ(wc.imm_data, 0xabcdef01u);
  ExpectSame(0, 64, 100);
}

TEST_F(TransferTest, AtomicsReturnTheOldValue) {
  Make();
  const uint64_t before = 40;
  std::memcpy(b().memory() + 8, &before, 8);
  EXPECT_EQ(a().PostSend({a().Sge(0, 8)},
                         [&](ibv_send_wr& wr) {
                           wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
                           wr.wr.atomic.compare_add = 2;
                           Target(wr, b(), 8);
                         }),
            0);
  ExpectDone(a(), IBV_WC_FETCH_ADD);
  uint64_t old = 0;
  std::memcpy(&old, a().memory(), 8);
  EXPECT_EQ(old, 40u);
  for (uint64_t expected : {42ull, 7ull}) {
    // The first comparison succeeds, the second fails.
    EXPECT_EQ(a().PostSend({a().Sge(0, 8)},
                           [&](ibv_send_wr& wr) {
                             wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
                             wr.wr.atomic.compare_add = 42;
                             wr.wr.atomic.swap = 7;
                             Target(wr, b(), 8);
                           }),
              0);
    ExpectDone(a(), IBV_WC_COMP_SWAP);
    std::memcpy(&old, a().memory(), 8);
    EXPECT_EQ(old, expected);
  }
  std::memcpy(&old, b().memory() + 8, 8);
  EXPECT_EQ(old, 7u);
}

TEST_F(TransferTest, ScatterAndGather) {
  Make();
  EXPECT_EQ(b().PostRecv(1, {b().Sge(0, 10), b().Sge(100, 2000),
                             b().Sge(5000, 0), b().Sge(6000, 5000)}),
            0);
  EXPECT_EQ(
      a().PostSend({a().Sge(0, 3), a().Sge(3, 1500), a().Sge(1503, 3000)}), 0);
  EXPECT_EQ(b().Poll().byte_len, 4503u);
  ExpectSame(0, 0, 10);
  ExpectSame(10, 100, 2000);
  ExpectSame(2010, 6000, 4503 - 2010);
}

TEST_F(TransferTest, InlineDataMayChangeAfterPosting) {
  Make();
  EXPECT_GE(a().cap().max_inline_data, 64u);
  EXPECT_EQ(b().PostRecv(1, {b().Sge(0, 64)}), 0);
  uint8_t local[64];
  std::memset(local, 7, sizeof(local));
  // No key: inline data is copied by the posting thread.
  EXPECT_EQ(
      a().PostSend({{reinterpret_cast<uint64_t>(local), 60, 0xdead},
                    {reinterpret_cast<uint64_t>(local), 4, 0}},
                   [](ibv_send_wr& wr) { wr.send_flags |= IBV_SEND_INLINE; }),
      0);
  std::memset(local, 9, sizeof(local));
  EXPECT_EQ(b().Poll().byte_len, 64u);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(b().memory()[i], 7);
}

TEST_F(TransferTest, OnlySignaledRequestsComplete) {
  PairOptions options;
  options.sq_sig_all = 0;
  Make(options);
  for (uint64_t i = 0; i < 1000; ++i) {
    const bool last = i % 50 == 49;
    ASSERT_EQ(a().PostSend({a().Sge(0, 8)},
                           [&](ibv_send_wr& wr) {
                             wr.wr_id = i;
                             wr.send_flags = last ? IBV_SEND_SIGNALED : 0;
                             wr.opcode = IBV_WR_RDMA_WRITE;
                             Target(wr, b(), 0);
                           }),
              0);
    if (last) {
      EXPECT_EQ(a().Poll().wr_id, i);
    }
  }
  EXPECT_TRUE(a().Quiet());
}

TEST_F(TransferTest, AListOfRequestsStopsAtTheFirstBadOne) {
  Make();
  ibv_sge sge = a().Sge(0, 8);
  ibv_send_wr wrs[4] = {};
  for (int i = 0; i < 4; ++i) {
    wrs[i].wr_id = static_cast<uint64_t>(i);
    wrs[i].next = i < 3 ? &wrs[i + 1] : nullptr;
    wrs[i].sg_list = &sge;
    wrs[i].num_sge = 1;
    wrs[i].opcode = IBV_WR_RDMA_WRITE;
    Target(wrs[i], b(), 0);
  }
  wrs[2].num_sge = 99;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(a().qp(), wrs, &bad), EINVAL);
  EXPECT_EQ(bad, &wrs[2]);
  EXPECT_EQ(a().Poll().wr_id, 0u);
  EXPECT_EQ(a().Poll().wr_id, 1u);
  EXPECT_TRUE(a().Quiet());
}

TEST_F(TransferTest, ManyRequestsInFlightKeepTheirOrder) {
  PairOptions options;
  options.depth = 256;
  Make(options);
  uint64_t received = 0;
  uint64_t sent = 0;
  for (uint64_t i = 0; i < 256; ++i) {
    ASSERT_EQ(b().PostRecv(i, {b().Sge(i * 64, 64)}), 0);
  }
  for (uint64_t i = 0; i < 256; ++i) {
    ASSERT_EQ(a().PostSend({a().Sge(i * 64, 64)},
                           [&](ibv_send_wr& wr) { wr.wr_id = i; }),
              0);
  }
  while (received < 256) EXPECT_EQ(b().Poll().wr_id, received++);
  while (sent < 256) EXPECT_EQ(a().Poll().wr_id, sent++);
  ExpectSame(0, 0, 256 * 64);
}

TEST_F(TransferTest, AQueuePairMayTalkToItself) {
  End end(device_, {});
  end.Connect(end.qp()->qp_num);
  std::iota(end.memory(), end.memory() + 5000, uint8_t{1});
  EXPECT_EQ(end.PostSend({end.Sge(0, 5000)},
                         [&](ibv_send_wr& wr) {
                           wr.opcode = IBV_WR_RDMA_WRITE;
                           Target(wr, end, 8192);
                         }),
            0);
  EXPECT_EQ(end.Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(end.memory(), end.memory() + 8192, 5000), 0);
}

TEST_F(TransferTest, ARegionMayHaveItsOwnAddress) {
  Make();
  ibv_mr* mr =
      ibv_reg_mr_iova(b().pd(), b().memory(), 4096, 0x1000000000, kAllRights);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(a().PostSend({a().Sge(0, 100)},
                         [&](ibv_send_wr& wr) {
                           wr.opcode = IBV_WR_RDMA_WRITE;
                           wr.wr.rdma.remote_addr = 0x1000000000 + 200;
                           wr.wr.rdma.rkey = mr->rkey;
                         }),
            0);
  ExpectDone(a(), IBV_WC_RDMA_WRITE);
  ExpectSame(0, 200, 100);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(TransferTest, WorksAgainAfterReset) {
  Make();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(b().PostRecv(1, {b().Sge(0, 64)}), 0);
    EXPECT_EQ(a().PostSend({a().Sge(0, 64)}), 0);
    ExpectDone(b(), IBV_WC_RECV);
    ExpectDone(a(), IBV_WC_SEND);
    // Posted requests and unread completions are dropped.
    EXPECT_EQ(b().PostRecv(2, {b().Sge(0, 64)}), 0);
    EXPECT_EQ(a().PostSend({a().Sge(0, 64)}), 0);
    EXPECT_EQ(b().PostRecv(3, {b().Sge(0, 64)}), 0);
    EXPECT_EQ(a().To(IBV_QPS_RESET), 0);
    EXPECT_EQ(b().To(IBV_QPS_RESET), 0);
    EXPECT_TRUE(a().Quiet());
    EXPECT_TRUE(b().Quiet());
    a().Connect(b().qp()->qp_num);
    b().Connect(a().qp()->qp_num);
  }
}

}  // namespace
}  // namespace urnic
