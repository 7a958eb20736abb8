// Changes that no intercepted call makes: what libc does itself, and direct
// system calls.

#include "verbs/regcache/kernel_watch.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/syscall.h>

#include <cstdlib>

#include "verbs/regcache/testing/cache_fixture.h"

namespace urnic::regcache {
namespace {

constexpr uint64_t kMb = 1 << 20;

class KernelWatchTest : public CacheTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(Space::Of().StartThreads(), 0);
    if (!Space::Of().watches()) {
      GTEST_SKIP() << "no userfaultfd with events of Linux 6.7 here";
    }
    Open();
  }
  void TearDown() override {
    CacheTest::TearDown();
    Space::Of().StopThreads();
  }
};

TEST_F(KernelWatchTest, ABlockThatLibcUnmapsAndMapsAgain) {
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  void* block = std::malloc(8 * kMb);
  const Range first = RangeOf(block, 8 * kMb);
  GetPut(first);
  std::free(block);
  const uint64_t moment = fake_.Now();
  block = std::malloc(8 * kMb);
  Entry* use = Get(RangeOf(block, 8 * kMb));
  EXPECT_GT(RegionOf(use).made, moment);
  Put(use);
  std::free(block);
}

TEST_F(KernelWatchTest, SystemCallsAreSeen) {
  const Fragments memory(2);
  const Range page = memory.At(4096, 4096);
  const auto change = [&](int i) {
    switch (i) {
      case 0:
        return syscall(SYS_munmap, page.begin, 4096);
      case 1:
        return syscall(SYS_madvise, page.begin, 4096, MADV_DONTNEED);
      case 2:
        return syscall(SYS_madvise, page.begin, 4096, MADV_FREE);
      default:
        return syscall(SYS_mremap, page.begin, 4096, 4096,
                       MREMAP_MAYMOVE | MREMAP_FIXED,
                       memory.At(kFragmentBytes, 1).begin);
    }
  };
  for (int i = 0; i < 4; ++i) {
    memory.Map(0, kMb);
    GetPut(page);
    EXPECT_NE(change(i), -1);
    memory.Map(4096, 4096);
    const uint64_t moment = fake_.Now();
    Entry* use = Get(page);
    EXPECT_GT(RegionOf(use).made, moment) << i;
    Put(use);
  }
}

TEST_F(KernelWatchTest, AMappingOverAnotherIsSeen) {
  const Fragments memory(1);
  memory.Map(0, kMb);
  for (int i = 0; i < 10; ++i) {
    GetPut(memory.At(0, kMb));
    memory.Map(8192, 4096);
    const uint64_t moment = fake_.Now();
    Entry* use = Get(memory.At(0, kMb));
    EXPECT_GT(RegionOf(use).made, moment);
    Put(use);
  }
}

TEST_F(KernelWatchTest, WhatIsRemovedIsLeftOutUntilItIsGone) {
  const Fragments memory(1);
  memory.Map(0, kMb);
  GetPut(memory.At(0, 4096));
  EXPECT_EQ(syscall(SYS_madvise, memory.At(8192, 0).begin, 4096, MADV_DONTNEED),
            0);
  EXPECT_EQ(GetPut(memory.At(0, 4096)), memory.At(0, 8192));
  Ticks(2);
  EXPECT_EQ(GetPut(memory.At(0, 12288)), memory.At(0, kMb));
}

TEST_F(KernelWatchTest, WhatCannotBeWatchedIsNotKept) {
  // Another userfaultfd has it.
  KernelWatch other;
  ASSERT_TRUE(other.Open());
  const Fragments memory(1);
  memory.Map(0, kMb);
  const Range theirs = memory.At(4096, 4096);
  EXPECT_TRUE(other.Watch(theirs));
  Entry* first = Get(theirs);
  EXPECT_EQ(RegionOf(first).range, theirs);
  Entry* second = Get(theirs);
  EXPECT_NE(first, second);
  Put(first);
  Put(second);
  EXPECT_EQ(fake_.live, 0);
  EXPECT_EQ(cache_->ReadStats().uncached, 2u);
  // Its neighbours are kept, page by page.
  EXPECT_EQ(GetPut(memory.At(0, 4096)), memory.At(0, 4096));
  EXPECT_EQ(fake_.live, 1);
  other.Unwatch(theirs);
  other.Close();
}

TEST_F(KernelWatchTest, WhatIsNoLongerRegisteredIsNoLongerWatched) {
  const Fragments memory(1);
  const Range all = memory.Map(0, kMb);
  KernelWatch& kernel = Space::Of().kernel();
  Entry* use = Get(all);
  EXPECT_TRUE(kernel.IsWatched(all));
  Space::Of().Changed(all);
  EXPECT_TRUE(kernel.IsWatched(all));
  Put(use);
  EXPECT_FALSE(kernel.IsWatched(all));
}

}  // namespace
}  // namespace urnic::regcache
