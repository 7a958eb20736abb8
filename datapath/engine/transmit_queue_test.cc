#include "datapath/engine/transmit_queue.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <span>
#include <vector>

#include "datapath/guest/eal.h"
#include "datapath/memory/packet_pool.h"
#include "datapath/port/frame_port.h"
#include "ras/metrics/counters.h"

namespace urnic {
namespace {

// Discards what is sent.
class Sink final : public FramePort {
 public:
  using FramePort::FramePort;

 private:
  bool Send(std::span<const uint8_t>) override { return true; }
};

rte_mempool* NewPool() {
  EXPECT_TRUE(StartEal({.memory_mb = 64}).ok());
  auto pool = TakePool(2048, 1023);
  EXPECT_TRUE(pool.ok()) << pool.status();
  return *pool;
}

FramePortConfig ConfigWith(rte_mempool* pool) {
  FramePortConfig config;
  config.pool = pool;
  return config;
}

class TransmitQueueTest : public ::testing::Test {
 protected:
  TransmitQueueTest() : pool_(NewPool()), port_(ConfigWith(pool_)) {}
  ~TransmitQueueTest() override {
    queue_.FreeAll();
    EXPECT_TRUE(PoolIsWhole(pool_));
    ReturnPool(pool_);
  }

  rte_mempool* const pool_;
  Sink port_;
  EngineCounters counters_;
  Capture capture_{[] { return Time(); }};
  TransmitQueue queue_{&port_, &counters_, &capture_};
};

TEST_F(TransmitQueueTest, AReceivedFrameIsReusedAsAnEmptyOne) {
  rte_mbuf* received = rte_pktmbuf_alloc(pool_);
  rte_pktmbuf_append(received, 100);
  rte_pktmbuf_adj(received, 14);
  received->ol_flags = RTE_MBUF_F_RX_VLAN;
  received->vlan_tci = 5;
  rte_mbuf* frames[] = {received};
  queue_.Recycle(frames, 1);
  ASSERT_EQ(queue_.empty_frames(), 1u);
  rte_mbuf* const empty = queue_.TakeEmpty();
  EXPECT_EQ(empty, received);
  EXPECT_EQ(empty->data_len, 0);
  EXPECT_EQ(empty->pkt_len, 0u);
  EXPECT_EQ(empty->data_off, RTE_PKTMBUF_HEADROOM);
  EXPECT_EQ(empty->ol_flags, 0u);
  EXPECT_EQ(empty->vlan_tci, 0);
  queue_.Push(empty);
  EXPECT_TRUE(queue_.Flush());
}

TEST_F(TransmitQueueTest, SharedAndForeignFramesAreFreed) {
  rte_mempool* const other = NewPool();
  rte_mbuf* const shared = rte_pktmbuf_alloc(pool_);
  rte_mbuf_refcnt_update(shared, 1);
  rte_mbuf* frames[] = {shared, rte_pktmbuf_alloc(other)};
  queue_.Recycle(frames, 2);
  EXPECT_EQ(queue_.empty_frames(), 0u);
  EXPECT_EQ(rte_mbuf_refcnt_read(shared), 1);
  rte_pktmbuf_free(shared);
  EXPECT_TRUE(PoolIsWhole(other));
  ReturnPool(other);
}

// The bytes of the frame belong to another buffer, which must not be written.
TEST_F(TransmitQueueTest, AFrameAttachedToAnotherBufferIsFreed) {
  rte_mbuf* const bytes = rte_pktmbuf_alloc(pool_);
  rte_mbuf* const pointer = rte_pktmbuf_alloc(pool_);
  rte_pktmbuf_attach(pointer, bytes);
  rte_mbuf* frames[] = {pointer};
  queue_.Recycle(frames, 1);
  EXPECT_EQ(queue_.empty_frames(), 0u);
  rte_pktmbuf_free(bytes);
}

TEST_F(TransmitQueueTest, TheLastBuffersOfThePoolAreUsed) {
  std::vector<rte_mbuf*> taken;
  while (rte_mbuf* frame = rte_pktmbuf_alloc(pool_)) taken.push_back(frame);
  EXPECT_FALSE(queue_.HasEmptyFrame());
  for (int i = 0; i < 3; ++i) {
    rte_pktmbuf_free(taken.back());
    taken.pop_back();
  }
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(queue_.HasEmptyFrame());
    taken.push_back(queue_.TakeEmpty());
  }
  EXPECT_FALSE(queue_.HasEmptyFrame());
  EXPECT_GE(counters_.tx_no_mbuf, 2u);
  rte_pktmbuf_free_bulk(taken.data(), static_cast<unsigned>(taken.size()));
}

TEST_F(TransmitQueueTest, TheStockIsLimited) {
  rte_mbuf* frames[kBurstMax];
  for (int burst = 0; burst < 2; ++burst) {
    ASSERT_EQ(rte_pktmbuf_alloc_bulk(pool_, frames, kBurstMax), 0);
    queue_.Recycle(frames, kBurstMax);
    EXPECT_EQ(queue_.empty_frames(), uint32_t{kBurstMax});
  }
}

}  // namespace
}  // namespace urnic
