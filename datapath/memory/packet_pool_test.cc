#include "datapath/memory/packet_pool.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <string>

#include "datapath/guest/eal.h"

namespace urnic {
namespace {

TEST(PacketPoolTest, BuffersHaveTheRequestedRoomAfterTheHeadroom) {
  ASSERT_TRUE(StartEal({}).ok());
  rte_mempool* pool = *TakePool(128 + 4224, PoolSize(256, 256));
  rte_mbuf* m = rte_pktmbuf_alloc(pool);
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(rte_pktmbuf_headroom(m), 128);
  EXPECT_EQ(rte_pktmbuf_tailroom(m), 4224);
  rte_pktmbuf_free(m);
  ReturnPool(pool);
}

TEST(PacketPoolTest, PoolSizeCoversBothRings) {
  EXPECT_GE(PoolSize(256, 256), 256u + 256 + 512);
  EXPECT_EQ(PoolSize(1024, 1024), 4095u);
}

TEST(PacketPoolTest, APoolLivesUntilItsLastBufferReturns) {
  ASSERT_TRUE(StartEal({}).ok());
  rte_mempool* pool = *TakePool(2048, 1023);
  const std::string name = pool->name;
  rte_mbuf* m = rte_pktmbuf_alloc(pool);
  ReturnPool(pool);
  ASSERT_EQ(rte_mempool_lookup(name.c_str()), pool);
  rte_pktmbuf_free(m);
  rte_mempool* next = *TakePool(2048, 1023);
  EXPECT_EQ(rte_mempool_lookup(name.c_str()), nullptr);
  ReturnPool(next);
}

TEST(PacketPoolTest, ARefusalNamesTheMissingMemory) {
  ASSERT_TRUE(StartEal({}).ok());
  const auto pool = TakePool(60000, 1 << 20);
  ASSERT_FALSE(pool.ok());
  EXPECT_NE(pool.status().message().find("MB of DPDK memory"),
            absl::string_view::npos);
}

}  // namespace
}  // namespace urnic
