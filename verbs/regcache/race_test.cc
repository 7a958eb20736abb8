// Threads that map, use and unmap memory of the same fragments at the same
// addresses. The registrar notes when each registration began: a get must not
// give one that is older than the mapping of its buffer. How old a mapping is,
// a thread notes before it makes it: another thread may register it as soon as
// it is there.

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "verbs/regcache/testing/cache_fixture.h"

namespace urnic::regcache {
namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 1500;
constexpr uint64_t kPage = kPageBytes;

class RaceTest : public CacheTest {
 protected:
  void OpenWithThreads(bool kernel, CacheOptions options = {}) {
    ASSERT_EQ(Space::Of().StartThreads(), 0);
    threads_ = true;
    if (kernel && !Space::Of().watches()) {
      GTEST_SKIP() << "no userfaultfd with events of Linux 6.7 here";
    }
    Open(options);
  }
  void TearDown() override {
    CacheTest::TearDown();
    if (threads_) Space::Of().StopThreads();
  }

  void InThreads(const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
    for (auto& thread : threads) thread.join();
  }

  // Uses a buffer whose memory was mapped at this moment, or earlier.
  void Use(Range buffer, uint64_t moment) {
    Entry* use = nullptr;
    const int error = cache_->Get(buffer, kLocalWrite, &use);
    if (error != 0) {
      failures_ += 1;
      return;
    }
    const auto& region = RegionOf(use);
    stale_ += region.made < moment ? 1 : 0;
    wrong_ += !region.range.Covers(buffer) || !region.live ? 1 : 0;
    std::this_thread::yield();
    wrong_ += region.live ? 0 : 1;
    failures_ += cache_->Put(use) != 0 ? 1 : 0;
  }
  void UseTwice(void* at, uint64_t bytes, uint64_t moment) {
    Use(RangeOf(at, bytes), moment);
    Use(RangeOf(static_cast<char*>(at) + bytes / 2, 1), moment);
  }
  void Expect() {
    EXPECT_EQ(stale_, 0u);
    EXPECT_EQ(wrong_, 0u);
    EXPECT_EQ(failures_, 0u);
  }

  std::atomic<uint64_t> stale_{0};
  std::atomic<uint64_t> wrong_{0};
  std::atomic<uint64_t> failures_{0};
  bool threads_ = false;
};

// The kernel gives addresses that another thread has just given up.
void* MapAnywhere(uint64_t bytes) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

uint64_t SizeOf(int round) {
  return (1 + static_cast<uint64_t>(round) * 7 % 32) * kPage;
}

TEST_F(RaceTest, MappingsThatCallsMakeAndEnd) {
  OpenWithThreads(false);
  InThreads([this](int) {
    for (int i = 0; i < kRounds; ++i) {
      const uint64_t moment = fake_.Now();
      void* at = MapAnywhere(SizeOf(i));
      UseTwice(at, SizeOf(i), moment);
      munmap(at, SizeOf(i));
    }
  });
  Expect();
}

TEST_F(RaceTest, ChangesOfPartsOfAMapping) {
  OpenWithThreads(false);
  const Fragments memory(1);
  memory.Map(0, kThreads * 64 * kPage);
  InThreads([&, this](int thread) {
    const uint64_t mine = static_cast<uint64_t>(thread) * 64 * kPage;
    for (int i = 0; i < kRounds; ++i) {
      void* at = Pointer(memory.At(mine + SizeOf(i), 0));
      const uint64_t moment = fake_.Now();
      switch (i % 3) {
        case 0:
          madvise(at, kPage, MADV_DONTNEED);
          break;
        case 1:
          mmap(at, kPage, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
          break;
        default:
          mprotect(at, kPage, PROT_READ | PROT_WRITE);
      }
      UseTwice(at, kPage, moment);
    }
  });
  Expect();
}

// With limits, so that registrations end for all reasons at once.
TEST_F(RaceTest, RoomForFewRegistrations) {
  OpenWithThreads(
      false,
      {.max_registrations = kThreads, .idle_ticks = 1, .pages_only = true});
  const Fragments memory(2);
  memory.Map(0, 2 * kFragmentBytes);
  InThreads([&, this](int thread) {
    for (int i = 0; i < kRounds; ++i) {
      const Range buffer =
          memory.At(static_cast<uint64_t>(i * 3 + thread) % 16 * kPage, 100);
      if (i % 50 == 0) Space::Of().Tick();
      if (i % 20 == 0) Space::Of().Changed(buffer);
      Use(buffer, 0);
    }
  });
  Expect();
}

// Direct system calls, as libc makes them: each thread at its own addresses of
// a fragment that all share.
TEST_F(RaceTest, MappingsThatOnlyTheKernelReports) {
  OpenWithThreads(true);
  if (IsSkipped()) return;
  const Fragments memory(1);
  InThreads([&, this](int thread) {
    const uint64_t mine = static_cast<uint64_t>(thread) * 64 * kPage;
    for (int i = 0; i < kRounds; ++i) {
      uint64_t moment = fake_.Now();
      const Range range = memory.Map(mine, SizeOf(i));
      UseTwice(Pointer(range), SizeOf(i), moment);
      moment = fake_.Now();
      syscall(i % 2 == 0 ? SYS_munmap : SYS_madvise, range.begin, SizeOf(i),
              MADV_DONTNEED);
      if (i % 2 != 0) UseTwice(Pointer(range), SizeOf(i), moment);
    }
  });
  Expect();
}

// The same at addresses that go from thread to thread while the kernel's report
// is on its way: not with URNIC_REGCACHE_FAST.
TEST_F(RaceTest, AddressesThatGoFromThreadToThread) {
  OpenWithThreads(true, {.strict = true});
  if (IsSkipped()) return;
  InThreads([this](int) {
    for (int i = 0; i < kRounds; ++i) {
      const uint64_t moment = fake_.Now();
      const long at =
          syscall(SYS_mmap, nullptr, SizeOf(i), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      UseTwice(reinterpret_cast<void*>(at), SizeOf(i), moment);
      syscall(SYS_munmap, at, SizeOf(i));
    }
  });
  Expect();
}

TEST_F(RaceTest, BlocksOfMallocThatGoFromThreadToThread) {
  OpenWithThreads(true, {.strict = true});
  if (IsSkipped()) return;
  mallopt(M_MMAP_THRESHOLD, 128 * 1024);
  mallopt(M_TRIM_THRESHOLD, 64 * 1024);
  InThreads([this](int) {
    for (int i = 0; i < kRounds; ++i) {
      // Sometimes a mapping of its own, sometimes a part of a heap.
      const size_t bytes = i % 2 == 0 ? 100'000 : 300'000;
      const uint64_t moment = fake_.Now();
      void* at = std::malloc(bytes);
      if (bytes > 128 * 1024) {
        UseTwice(at, bytes, moment);
      } else {
        Use(RangeOf(at, bytes), 0);
      }
      std::free(at);
    }
  });
  Expect();
}

}  // namespace
}  // namespace urnic::regcache
