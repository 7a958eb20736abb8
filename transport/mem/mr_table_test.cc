#include "transport/mem/mr_table.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace urnic::mem {
namespace {

constexpr uint64_t kHost = 0x700000000000;

class MrTableTest : public ::testing::Test {
 protected:
  MemFault Fault(uint32_t key, uint64_t address, uint64_t bytes,
                 uint32_t rights = 0, uint32_t pd = 1) const {
    return table_.Check(MrKey{key}, pd, address, bytes, rights).fault;
  }

  std::vector<MemoryRegion> storage_ = std::vector<MemoryRegion>(8);
  MrTable table_{storage_, /*nic_ordinal=*/5, /*first_index=*/0x1ffffe,
                 /*first_variant=*/0xfe};
};

TEST_F(MrTableTest, OpensExactlyTheRegisteredBytes) {
  const uint32_t key = table_.Register(1, kHost, kHost, 100, kRemoteRead);
  EXPECT_EQ(Fault(key, kHost, 100), MemFault::kNone);
  EXPECT_EQ(Fault(key, kHost + 99, 1), MemFault::kNone);
  EXPECT_EQ(Fault(key, kHost + 100, 0), MemFault::kNone);
  EXPECT_EQ(Fault(key, kHost, 101), MemFault::kRange);
  EXPECT_EQ(Fault(key, kHost + 100, 1), MemFault::kRange);
  EXPECT_EQ(Fault(key, kHost + 101, 0), MemFault::kRange);
  EXPECT_EQ(Fault(key, kHost - 1, 2), MemFault::kRange);
  EXPECT_EQ(Fault(key, kHost - 1, 0), MemFault::kRange);
}

TEST_F(MrTableTest, SurvivesAddressesThatWrap) {
  const uint32_t key = table_.Register(1, kHost, kHost, 100, 0);
  EXPECT_EQ(Fault(key, UINT64_MAX, 1), MemFault::kRange);
  EXPECT_EQ(Fault(key, kHost + 50, UINT64_MAX - 20), MemFault::kRange);
  EXPECT_EQ(Fault(key, kHost + 50, UINT64_MAX), MemFault::kRange);
  // A region at the very end of the address space.
  const uint32_t last = table_.Register(1, kHost, UINT64_MAX - 9, 10, 0);
  EXPECT_EQ(Fault(last, UINT64_MAX - 9, 10), MemFault::kNone);
  EXPECT_EQ(Fault(last, UINT64_MAX - 9, 11), MemFault::kRange);
  EXPECT_EQ(Fault(last, 0, 1), MemFault::kRange);
}

TEST_F(MrTableTest, TranslatesFromTheAddressThatPeersUse) {
  const uint32_t key = table_.Register(1, kHost, 0, 100, 0);
  EXPECT_EQ(table_.Check(MrKey{key}, 1, 30, 1, 0).host, kHost + 30);
  EXPECT_EQ(Fault(key, kHost, 1), MemFault::kRange);
}

TEST_F(MrTableTest, RefusesTheWrongDomainAndMissingRights) {
  const uint32_t key =
      table_.Register(1, kHost, kHost, 100, kLocalWrite | kRemoteWrite);
  EXPECT_EQ(Fault(key, kHost, 1, kRemoteWrite), MemFault::kNone);
  EXPECT_EQ(Fault(key, kHost, 1, kLocalRead), MemFault::kNone);
  EXPECT_EQ(Fault(key, kHost, 1, kRemoteRead), MemFault::kRights);
  EXPECT_EQ(Fault(key, kHost, 1, kRemoteWrite | kRemoteAtomic),
            MemFault::kRights);
  EXPECT_EQ(Fault(key, kHost, 1, kRemoteWrite, 2), MemFault::kPd);
}

TEST_F(MrTableTest, KnowsNoKeyButTheExactOne) {
  const uint32_t key = table_.Register(1, kHost, kHost, 100, 0);
  for (int bit = 0; bit < 32; ++bit) {
    EXPECT_EQ(Fault(key ^ 1u << bit, kHost, 1), MemFault::kKey) << bit;
  }
  EXPECT_EQ(Fault(0, kHost, 1), MemFault::kKey);
}

TEST_F(MrTableTest, FreeEntriesOpenNothing) {
  for (uint32_t key = 0; key < 0x1000; ++key) {
    EXPECT_EQ(Fault(key, 0, 0), MemFault::kKey);
  }
}

TEST_F(MrTableTest, ForgetsADeregisteredKeyAndReusesItLate) {
  std::set<uint32_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const uint32_t key = table_.Register(1, kHost, kHost, 100, 0);
    ASSERT_NE(key, 0u);
    EXPECT_EQ(key >> 29, 5u);
    EXPECT_TRUE(seen.insert(key).second) << "key used again after " << i;
    EXPECT_TRUE(table_.Deregister(MrKey{key}));
    EXPECT_EQ(Fault(key, kHost, 1), MemFault::kKey);
    EXPECT_FALSE(table_.Deregister(MrKey{key}));
  }
  EXPECT_EQ(table_.in_use(), 0u);
}

TEST_F(MrTableTest, SaysWhenItIsFullAndUsesEveryEntry) {
  std::vector<uint32_t> keys;
  for (uint32_t i = 0; i < table_.capacity(); ++i) {
    keys.push_back(table_.Register(1, kHost, kHost + 1000 * i, 100, 0));
    ASSERT_NE(keys.back(), 0u);
  }
  EXPECT_EQ(table_.Register(1, kHost, kHost, 100, 0), 0u);
  for (uint32_t i = 0; i < table_.capacity(); ++i) {
    EXPECT_EQ(Fault(keys[i], kHost + 1000 * i, 100), MemFault::kNone);
  }
  // A hole in the middle is found again.
  EXPECT_TRUE(table_.Deregister(MrKey{keys[3]}));
  const uint32_t key = table_.Register(1, kHost, kHost, 1, 0);
  EXPECT_NE(key, 0u);
  EXPECT_EQ(table_.in_use(), table_.capacity());
}

TEST_F(MrTableTest, LetsAPeerRetireOnlyWhatAllowsIt) {
  const uint32_t plain = table_.Register(1, kHost, kHost, 100, kRemoteWrite);
  const uint32_t window =
      table_.Register(1, kHost, kHost, 100, kRemoteWrite | kRemoteInvalidate);
  EXPECT_EQ(table_.InvalidateRemote(MrKey{plain}, 1), MemFault::kRights);
  EXPECT_EQ(table_.InvalidateRemote(MrKey{window}, 2), MemFault::kPd);
  EXPECT_EQ(table_.InvalidateRemote(MrKey{window ^ 1}, 1), MemFault::kKey);
  EXPECT_EQ(table_.InvalidateRemote(MrKey{0}, 1), MemFault::kKey);
  EXPECT_EQ(Fault(window, kHost, 1), MemFault::kNone);
  EXPECT_EQ(table_.InvalidateRemote(MrKey{window}, 1), MemFault::kNone);
  EXPECT_EQ(Fault(window, kHost, 1), MemFault::kKey);
  EXPECT_EQ(table_.InvalidateRemote(MrKey{window}, 1), MemFault::kKey);
  // The owner still has it, until it deregisters.
  EXPECT_NE(table_.Find(MrKey{window}), nullptr);
  EXPECT_TRUE(table_.Deregister(MrKey{window}));
  EXPECT_EQ(Fault(plain, kHost, 1), MemFault::kNone);
}

}  // namespace
}  // namespace urnic::mem
