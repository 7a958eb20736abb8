#include "datapath/engine/frame_custody.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <cstring>
#include <span>

#include "datapath/engine/transmit_queue.h"
#include "datapath/guest/eal.h"
#include "datapath/memory/packet_pool.h"
#include "datapath/port/frame_port.h"

namespace urnic {
namespace {

constexpr uint32_t kBuffers = 1023;

// Discards what is sent.
class Sink final : public FramePort {
 public:
  using FramePort::FramePort;

 private:
  bool Send(std::span<const uint8_t>) override { return true; }
};

rte_mempool* NewPool() {
  EXPECT_TRUE(StartEal({.memory_mb = 64}).ok());
  auto pool = TakePool(2048, kBuffers);
  EXPECT_TRUE(pool.ok()) << pool.status();
  return *pool;
}

FramePortConfig ConfigWith(rte_mempool* pool) {
  FramePortConfig config;
  config.pool = pool;
  return config;
}

class FrameCustodyTest : public ::testing::Test {
 protected:
  FrameCustodyTest() : pool_(NewPool()), port_(ConfigWith(pool_)) {}
  ~FrameCustodyTest() override {
    queue_.FreeAll();
    custody_.FreeAll();
    EXPECT_TRUE(PoolIsWhole(pool_));
    ReturnPool(pool_);
  }

  // A received frame, filled with `fill`.
  rte_mbuf* Receive(uint8_t fill) {
    rte_mbuf* frame = rte_pktmbuf_alloc(pool_);
    std::memset(rte_pktmbuf_append(frame, 100), fill, 100);
    return frame;
  }
  uint32_t Keep(rte_mbuf* frame, FrameHolder& holder) {
    return custody_.Keep(
        {{rte_pktmbuf_mtod(frame, const uint8_t*), frame->data_len}, frame},
        holder);
  }
  // Ends the burst.
  void Recycle(rte_mbuf* frame) { queue_.Recycle(&frame, 1); }

  rte_mempool* const pool_;
  Sink port_;
  EngineCounters counters_;
  Capture capture_{[] { return Time(); }};
  TransmitQueue queue_{&port_, &counters_, &capture_};
  FrameCustody custody_{pool_, &counters_};
};

TEST_F(FrameCustodyTest, AKeptFrameOutlivesItsBurstAndIsReusedAfterwards) {
  FrameHolder holder;
  rte_mbuf* const kept = Receive(7);
  const uint32_t number = Keep(kept, holder);
  ASSERT_NE(number, FrameKeeper::kRefused);
  EXPECT_EQ(holder.kept, 1u);
  Recycle(kept);
  EXPECT_EQ(queue_.empty_frames(), 0u) << "a kept frame was taken for empty";
  // Later frames use other buffers.
  for (int i = 0; i < 100; ++i) Recycle(Receive(9));
  EXPECT_EQ(rte_mbuf_refcnt_read(kept), 1);
  EXPECT_EQ(*rte_pktmbuf_mtod_offset(kept, const uint8_t*, 99), 7);
  custody_.Release(number, holder);
  EXPECT_EQ(holder.kept, 0u);
  EXPECT_EQ(custody_.kept(), 0u);
}

TEST_F(FrameCustodyTest, AFrameMayBeReleasedWithinItsBurst) {
  FrameHolder holder;
  rte_mbuf* const frame = Receive(7);
  custody_.Release(Keep(frame, holder), holder);
  Recycle(frame);
  EXPECT_EQ(queue_.empty_frames(), 1u);
}

TEST_F(FrameCustodyTest, ThereIsALimitPerHolderAndInTotal) {
  FrameHolder small{.limit = 2};
  FrameHolder large{.limit = 1000};
  uint32_t refused = 0;
  const auto keep = [&](FrameHolder& holder) {
    rte_mbuf* const frame = Receive(1);
    if (Keep(frame, holder) == FrameKeeper::kRefused) ++refused;
    Recycle(frame);
  };
  for (uint32_t i = 0; i < kBuffers / 2; ++i) keep(i % 4 == 0 ? small : large);
  EXPECT_EQ(small.kept, 2u);
  EXPECT_EQ(custody_.limit(), kBuffers / 4);
  EXPECT_EQ(small.kept + large.kept, custody_.kept());
  EXPECT_EQ(counters_.frames_kept, custody_.kept());
  // The large one leaves something for others.
  EXPECT_GE(custody_.limit() - custody_.kept(), large.kept / 4);
  EXPECT_LT(custody_.limit() - custody_.kept(), large.kept / 4 + 2);
  while (custody_.kept() != custody_.limit()) {
    FrameHolder another{.limit = 1};
    keep(another);
  }
  FrameHolder another;
  keep(another);
  EXPECT_EQ(another.kept, 0u);
  EXPECT_EQ(counters_.frames_not_kept, refused);
  EXPECT_NE(refused, 0u);
}

}  // namespace
}  // namespace urnic
