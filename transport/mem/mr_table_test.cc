#include "transport/mem/mr_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <unordered_set>
#include <vector>

namespace urnic::mem {
namespace {

constexpr uint64_t kHost = 0x700000000000;

LocalLessor LessorOf(uint32_t ordinal) {
  LocalLessor lessor;
  OfferNumbersOf(ordinal, lessor);
  return lessor;
}

class MrTableTest : public ::testing::Test {
 protected:
  MemFault Fault(uint32_t key, uint64_t address, uint64_t bytes,
                 uint32_t rights = 0, uint32_t pd = 1) const {
    return table_.Check(MrKey{key}, pd, address, bytes, rights).fault;
  }

  std::vector<MemoryRegion> storage_ = std::vector<MemoryRegion>(16);
  LocalLessor lessor_ = LessorOf(5);
  MrTable table_{storage_, &lessor_, NumberKey{{1, 2}}};
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

TEST_F(MrTableTest, AcceptsOnlyTheExactKey) {
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

// A program that registers memory for each message uses few entries and gets no
// key twice.
TEST(MrTableGrowthTest, RegistrationsInSuccessionTouchLittleAndRepeatNoKey) {
  std::vector<MemoryRegion> storage(1u << 18);
  LocalLessor lessor = LessorOf(1);
  MrTable table(storage, &lessor, NumberKey{{1, 2}});
  std::unordered_set<uint32_t> keys;
  std::unordered_set<uint32_t> indices;
  std::unordered_set<uint32_t> steps;
  uint32_t last = 0;
  uint32_t highest = 0;  // entry that was ever used
  const uint32_t kept = table.Register(1, 0, 0, 8, 0);
  for (int i = 0; i < 300'000; ++i) {
    const uint32_t key = table.Register(1, 0, 0, 8, 0);
    ASSERT_NE(key, 0u);
    ASSERT_TRUE(keys.insert(key).second) << "after " << i;
    // Nor with another variant, which a window may have had.
    ASSERT_TRUE(indices.insert(key >> 8).second) << "after " << i;
    steps.insert(key - last);
    last = key;
    for (uint32_t at = highest + 1; at < 1024; ++at) {
      if (storage[at].key != 0) highest = at;
    }
    ASSERT_TRUE(table.Deregister(MrKey{key}));
  }
  EXPECT_NE(table.Find(MrKey{kept}), nullptr);
  EXPECT_LT(highest, 256u);
  // A key reveals nothing about the next.
  EXPECT_GT(steps.size(), 299'000u);
}

TEST(MrTableLeaseTest, KeysComeFromLeasedRangesUntilTheseAreUsedUp) {
  std::vector<MemoryRegion> storage(1024);
  LocalLessor lessor;
  lessor.Offer(NumberSpace::kKey, {NumberOf(3, 128), 8});
  lessor.Offer(NumberSpace::kKey, {NumberOf(3, 1024), 4});
  MrTable table(storage, &lessor, NumberKey{{1, 2}});
  std::set<uint32_t> numbers;
  uint32_t last = 0;
  for (int i = 0; i < 12; ++i) {
    last = table.Register(1, kHost, kHost, 8, 0);
    ASSERT_NE(last, 0u);
    numbers.insert(last >> kVariantBits);
  }
  EXPECT_EQ(numbers.size(), 12u);
  EXPECT_EQ(*numbers.begin(), NumberOf(3, 128));
  EXPECT_EQ(*numbers.rbegin(), NumberOf(3, 1027));
  EXPECT_EQ(table.Register(1, kHost, kHost, 8, 0), 0u);
  EXPECT_EQ(table.AllocateWindow(1, true), 0u);
  ASSERT_TRUE(table.Deregister(MrKey{last}));
  const uint32_t again = table.Register(1, kHost, kHost, 8, 0);
  EXPECT_EQ(again >> kVariantBits, last >> kVariantBits);
  EXPECT_NE(again, last) << "with another variant";
  EXPECT_EQ(table.in_use(), 12u);
}

TEST(MrTableGrowthTest, RegionsKeepTheirKeysWhileTheTableGrows) {
  std::vector<MemoryRegion> storage(1u << 16);
  LocalLessor lessor = LessorOf(7);
  MrTable table(storage, &lessor, NumberKey{{3, 4}});
  std::vector<uint32_t> keys;
  for (uint32_t i = 0; i < table.capacity(); ++i) {
    keys.push_back(table.Register(1, kHost + i, kHost, 1, 0));
    ASSERT_NE(keys.back(), 0u);
    if (i % 1000 != 0) continue;
    for (uint32_t n = 0; n <= i; ++n) {
      ASSERT_EQ(table.Check(MrKey{keys[n]}, 1, kHost, 1, 0).host, kHost + n);
    }
  }
  EXPECT_EQ(table.Register(1, kHost, kHost, 1, 0), 0u);
  for (const uint32_t key : keys) ASSERT_TRUE(table.Deregister(MrKey{key}));
  EXPECT_EQ(table.in_use(), 0u);
  EXPECT_TRUE(std::all_of(storage.begin(), storage.end(),
                          [](const MemoryRegion& mr) { return mr.key == 0; }));
}

TEST_F(MrTableTest, RefusesRegistrationsWhenItIsFull) {
  std::vector<uint32_t> keys;
  for (uint32_t i = 0; i < table_.capacity(); ++i) {
    keys.push_back(table_.Register(1, kHost, kHost + 1000 * i, 100, 0));
    ASSERT_NE(keys.back(), 0u);
  }
  EXPECT_EQ(table_.Register(1, kHost, kHost, 100, 0), 0u);
  for (uint32_t i = 0; i < table_.capacity(); ++i) {
    EXPECT_EQ(Fault(keys[i], kHost + 1000 * i, 100), MemFault::kNone);
  }
  // A freed entry in the middle is found again.
  EXPECT_TRUE(table_.Deregister(MrKey{keys[3]}));
  const uint32_t key = table_.Register(1, kHost, kHost, 1, 0);
  EXPECT_NE(key, 0u);
  EXPECT_EQ(table_.in_use(), table_.capacity());
}

TEST_F(MrTableTest, APeerRetiresOnlyKeysThatAllowIt) {
  const uint32_t plain = table_.Register(1, kHost, kHost, 100, kRemoteWrite);
  const uint32_t window =
      table_.Register(1, kHost, kHost, 100, kRemoteWrite | kRemoteInvalidate);
  EXPECT_EQ(table_.Invalidate(MrKey{plain}, 1, 7), MemFault::kRights);
  EXPECT_EQ(table_.Invalidate(MrKey{window}, 2, 7), MemFault::kPd);
  EXPECT_EQ(table_.Invalidate(MrKey{window ^ 1}, 1, 7), MemFault::kKey);
  EXPECT_EQ(table_.Invalidate(MrKey{0}, 1, 7), MemFault::kKey);
  EXPECT_EQ(Fault(window, kHost, 1), MemFault::kNone);
  EXPECT_EQ(table_.Invalidate(MrKey{window}, 1, 7), MemFault::kNone);
  EXPECT_EQ(Fault(window, kHost, 1), MemFault::kKey);
  EXPECT_EQ(table_.Invalidate(MrKey{window}, 1, 7), MemFault::kKey);
  // The owner still has it, until it deregisters.
  EXPECT_NE(table_.Find(MrKey{window}), nullptr);
  EXPECT_TRUE(table_.Deregister(MrKey{window}));
  EXPECT_EQ(Fault(plain, kHost, 1), MemFault::kNone);
}

// --- Windows -----------------------------------------------------------------

class WindowTest : public MrTableTest {
 protected:
  static constexpr uint32_t kPd = 1;
  static constexpr uint32_t kQp = 17;

  WindowTest() {
    region_ = table_.Register(kPd, kHost, kIova, 100,
                              kLocalWrite | kRemoteRead | kBindWindow);
  }
  WindowBind Request(uint32_t window) const {
    return {.window = window,
            .new_key = (window & ~0xffu) | ((window + 1) & 0xff),
            .region = region_,
            .address = kIova + 10,
            .length = 50,
            .access = kRemoteWrite,
            .pd = kPd,
            .qpn = kQp};
  }
  MemFault Remote(uint32_t key, uint64_t address, uint64_t bytes,
                  uint32_t rights, uint32_t qpn = kQp,
                  uint32_t pd = kPd) const {
    return table_.CheckRemote(MrKey{key}, pd, qpn, address, bytes, rights)
        .fault;
  }
  uint32_t Windows() const { return table_.Find(MrKey{region_})->windows; }

  static constexpr uint64_t kIova = 0x5000;
  uint32_t region_;
};

TEST_F(WindowTest, OpensItsPartForItsRightsUnderItsNewKey) {
  for (const bool type2 : {false, true}) {
    const uint32_t window = table_.AllocateWindow(kPd, type2);
    const WindowBind bind = Request(window);
    EXPECT_EQ(Remote(window, kIova + 10, 1, kRemoteWrite), MemFault::kKey);
    ASSERT_EQ(table_.Bind(bind), MemFault::kNone);
    EXPECT_EQ(Windows(), 1u);
    EXPECT_EQ(Remote(window, kIova + 10, 1, kRemoteWrite), MemFault::kKey);
    EXPECT_EQ(Remote(bind.new_key, kIova + 10, 50, kRemoteWrite),
              MemFault::kNone);
    EXPECT_EQ(table_
                  .CheckRemote(MrKey{bind.new_key}, kPd, kQp, kIova + 11, 1,
                               kRemoteWrite)
                  .host,
              kHost + 11);
    EXPECT_EQ(Remote(bind.new_key, kIova + 10, 51, kRemoteWrite),
              MemFault::kRange);
    EXPECT_EQ(Remote(bind.new_key, kIova + 9, 1, kRemoteWrite),
              MemFault::kRange);
    EXPECT_EQ(Remote(bind.new_key, kIova + 10, 1, kRemoteRead),
              MemFault::kRights)
        << "the region's right is not the window's";
    EXPECT_EQ(Remote(bind.new_key, kIova + 10, 1, kRemoteWrite, kQp, 2),
              type2 ? MemFault::kNone : MemFault::kPd);
    EXPECT_EQ(Remote(bind.new_key, kIova + 10, 1, kRemoteWrite, kQp + 1),
              type2 ? MemFault::kPd : MemFault::kNone);
    EXPECT_TRUE(table_.FreeWindow(window)) << "by any key that it has had";
    EXPECT_EQ(Remote(bind.new_key, kIova + 10, 1, kRemoteWrite),
              MemFault::kKey);
    EXPECT_EQ(Windows(), 0u);
    EXPECT_FALSE(table_.FreeWindow(window));
  }
}

TEST_F(WindowTest, ABoundWindowKeepsItsRegion) {
  for (const bool type2 : {false, true}) {
    const uint32_t window = table_.AllocateWindow(kPd, type2);
    const WindowBind bind = Request(window);
    ASSERT_EQ(table_.Bind(bind), MemFault::kNone);
    EXPECT_FALSE(table_.Deregister(MrKey{region_}));
    EXPECT_EQ(Remote(bind.new_key, kIova + 10, 50, kRemoteWrite),
              MemFault::kNone);
    EXPECT_EQ(Windows(), 1u);
    EXPECT_TRUE(table_.FreeWindow(window));
  }
  EXPECT_TRUE(table_.Deregister(MrKey{region_}));
}

TEST_F(WindowTest, ItsKeyIsRefusedForLocalWork) {
  for (const bool type2 : {false, true}) {
    const WindowBind bind = Request(table_.AllocateWindow(kPd, type2));
    ASSERT_EQ(table_.Bind(bind), MemFault::kNone);
    EXPECT_EQ(
        table_.CheckLocal(MrKey{bind.new_key}, kPd, kIova + 10, 1, 0).fault,
        MemFault::kPd);
  }
}

TEST_F(WindowTest, StartsAtZeroIfZeroBased) {
  WindowBind bind = Request(table_.AllocateWindow(kPd, true));
  bind.access |= kZeroBased;
  ASSERT_EQ(table_.Bind(bind), MemFault::kNone);
  EXPECT_EQ(Remote(bind.new_key, 0, 50, kRemoteWrite), MemFault::kNone);
  EXPECT_EQ(Remote(bind.new_key, kIova + 10, 1, kRemoteWrite),
            MemFault::kRange);
}

TEST_F(WindowTest, Type1IsReboundAndIsUnboundByLengthZero) {
  const uint32_t window = table_.AllocateWindow(kPd, false);
  WindowBind bind = Request(window);
  ASSERT_EQ(table_.Bind(bind), MemFault::kNone);
  const uint32_t first = bind.new_key;
  bind.new_key = (window & ~0xffu) | ((window + 2) & 0xff);
  bind.address = kIova;
  ASSERT_EQ(table_.Bind(bind), MemFault::kNone);
  EXPECT_EQ(Windows(), 1u);
  EXPECT_EQ(Remote(first, kIova + 10, 1, kRemoteWrite), MemFault::kKey);
  EXPECT_EQ(Remote(bind.new_key, kIova, 50, kRemoteWrite), MemFault::kNone);
  EXPECT_EQ(table_.Invalidate(MrKey{bind.new_key}, kPd, kQp),
            MemFault::kRights);
  bind.region = 0;
  bind.length = 0;
  ASSERT_EQ(table_.Bind(bind), MemFault::kNone);
  EXPECT_EQ(Windows(), 0u);
  EXPECT_EQ(Remote(bind.new_key, kIova, 1, kRemoteWrite), MemFault::kKey);
}

//= IBTA 10.6.7.2.2
TEST_F(WindowTest, Type2IsBoundOnceAndInvalidatedByItsQueuePair) {
  WindowBind bind = Request(table_.AllocateWindow(kPd, true));
  WindowBind nothing = bind;
  nothing.length = 0;
  EXPECT_EQ(table_.Bind(nothing), MemFault::kKey);
  ASSERT_EQ(table_.Bind(bind), MemFault::kNone);
  EXPECT_EQ(table_.Bind(bind), MemFault::kKey) << "still bound";
  EXPECT_EQ(table_.Invalidate(MrKey{bind.new_key}, kPd, kQp + 1),
            MemFault::kPd);
  EXPECT_EQ(table_.Invalidate(MrKey{bind.new_key ^ 1}, kPd, kQp),
            MemFault::kKey);
  EXPECT_EQ(table_.Invalidate(MrKey{bind.new_key}, kPd, kQp), MemFault::kNone);
  EXPECT_EQ(Windows(), 0u);
  EXPECT_EQ(Remote(bind.new_key, kIova + 10, 1, kRemoteWrite), MemFault::kKey);
  EXPECT_EQ(table_.Invalidate(MrKey{bind.new_key}, kPd, kQp), MemFault::kKey);
  EXPECT_EQ(table_.Bind(bind), MemFault::kNone) << "free again";
}

//= IBTA 10.6.7.2.1
TEST_F(WindowTest, ARefusedBindChangesNothing) {
  const uint32_t plain = table_.Register(kPd, kHost, kIova, 100, kLocalWrite);
  const uint32_t readable =
      table_.Register(kPd, kHost, kIova, 100, kRemoteRead | kBindWindow);
  const uint32_t foreign =
      table_.Register(2, kHost, kIova, 100, kLocalWrite | kBindWindow);
  const uint32_t window = table_.AllocateWindow(kPd, true);
  const auto bind = [&](auto&& change) {
    WindowBind request = Request(window);
    change(request);
    return table_.Bind(request);
  };
  EXPECT_EQ(bind([&](auto& b) { b.window ^= 0x100; }), MemFault::kKey);
  EXPECT_EQ(bind([&](auto& b) { b.window = plain; }), MemFault::kKey);
  EXPECT_EQ(bind([&](auto& b) { b.new_key ^= 0x100; }), MemFault::kKey);
  EXPECT_EQ(bind([&](auto& b) { b.region ^= 1; }), MemFault::kKey);
  EXPECT_EQ(bind([&](auto& b) { b.region = window; }), MemFault::kKey);
  EXPECT_EQ(bind([&](auto& b) { b.pd = 2; }), MemFault::kPd);
  EXPECT_EQ(bind([&](auto& b) { b.region = foreign; }), MemFault::kPd);
  EXPECT_EQ(bind([&](auto& b) { b.region = plain; }), MemFault::kRights);
  EXPECT_EQ(bind([&](auto& b) { b.region = readable; }), MemFault::kRights)
      << "writing through what is not writable";
  EXPECT_EQ(bind([&](auto& b) { b.address = kIova - 1; }), MemFault::kRange);
  EXPECT_EQ(bind([&](auto& b) { b.length = 91; }), MemFault::kRange);
  EXPECT_EQ(bind([&](auto& b) { b.length = UINT64_MAX; }), MemFault::kRange);
  EXPECT_EQ(Windows(), 0u);
  EXPECT_EQ(bind([](auto&) {}), MemFault::kNone);
}

TEST_F(WindowTest, ANullRegionDiscardsWritesAndReadsZeros) {
  table_.SetNullPages(0x1000, 0x2000);
  const uint32_t key = table_.RegisterNull(kPd);
  const auto local = [&](uint64_t address, uint64_t bytes, uint32_t rights) {
    return table_.CheckLocal(MrKey{key}, kPd, address, bytes, rights);
  };
  const auto remote = [&](uint64_t address, uint64_t bytes, uint32_t rights) {
    return table_.CheckRemote(MrKey{key}, kPd, 17, address, bytes, rights);
  };
  EXPECT_TRUE(local(77, 4096, 0).ok());
  EXPECT_EQ(local(77, 4096, 0).host, 0x1000u);
  EXPECT_EQ(local(~0ull - 4096, 4096, kLocalWrite).host, 0x2000u);
  EXPECT_EQ(local(~0ull, 4096, kLocalWrite).fault, MemFault::kRange);
  EXPECT_EQ(table_.CheckLocal(MrKey{key}, 2, 77, 1, 0).fault, MemFault::kPd);
  EXPECT_TRUE(remote(77, 1 << 30, kRemoteRead).ok());
  EXPECT_EQ(remote(77, 4096, kRemoteRead).host, 0x1000u);
  EXPECT_TRUE(remote(0, 4096, kRemoteWrite).ok());
  EXPECT_EQ(remote(0, 4096, kRemoteWrite).host, 0x2000u);
  EXPECT_EQ(remote(~0ull, 2, kRemoteRead).fault, MemFault::kRange);
  EXPECT_EQ(remote(0, 8, kRemoteAtomic).fault, MemFault::kRights)
      << "there is no word to change";
  EXPECT_EQ(table_.CheckRemote(MrKey{key}, 2, 17, 0, 1, kRemoteRead).fault,
            MemFault::kPd);
  EXPECT_TRUE(table_.Deregister(MrKey{key}));
}

}  // namespace
}  // namespace urnic::mem
