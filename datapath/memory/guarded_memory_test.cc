#include "datapath/memory/guarded_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "transport/wire/icrc.h"
#include "transport/wire/mpa.h"

namespace urnic {
namespace {

constexpr const wire::FoldingCrc* kCrcs[] = {&wire::kFoldingIcrc,
                                             &wire::kFoldingCrc32c};

class GuardedMemoryTest : public ::testing::TestWithParam<CopyMode> {
 protected:
  GuardedMemoryTest() {
    InstallMemoryGuard(nullptr, nullptr);
    page_ =
        static_cast<uint8_t*>(mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    munmap(page_ + kPage, kPage);
  }
  ~GuardedMemoryTest() override { munmap(page_, kPage); }

  static constexpr size_t kPage = 4096;
  uint8_t* page_;  // followed by unmapped memory
};

TEST_P(GuardedMemoryTest, CopiesEveryLengthAndAlignment) {
  std::vector<uint8_t> from(2048);
  for (size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<uint8_t>(i * 31 + 1);
  std::vector<uint8_t> to(2048);
  for (size_t bytes = 0; bytes < 1100; ++bytes) {
    for (const size_t shift : {0u, 1u, 7u}) {
      std::fill(to.begin(), to.end(), 0xee);
      ASSERT_TRUE(GuardedCopy(GetParam(), &to[8 + shift], &from[shift], bytes));
      ASSERT_EQ(std::memcmp(&to[8 + shift], &from[shift], bytes), 0) << bytes;
      ASSERT_EQ(to[7 + shift], 0xee) << bytes;
      ASSERT_EQ(to[8 + shift + bytes], 0xee) << bytes;
    }
  }
}

TEST_P(GuardedMemoryTest, HashesWhatItCopies) {
  std::vector<uint8_t> from(4200);
  for (size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<uint8_t>(i * i * 37 + i);
  for (const wire::FoldingCrc* crc : kCrcs) {
    for (size_t bytes = 4; bytes <= 4100; bytes += bytes < 800 ? 4 : 260) {
      for (const size_t shift : {0u, 1u, 70u}) {
        std::vector<uint8_t> to(from.size() + 16);
        uint32_t state = 0x12345678;
        ASSERT_TRUE(GuardedCopyHashed(GetParam(), &to[70], &from[shift], bytes,
                                      *crc, &state));
        ASSERT_EQ(std::memcmp(&to[70], &from[shift], bytes), 0) << bytes;
        ASSERT_EQ(to[70 + bytes], 0) << bytes;
        ASSERT_EQ(state, crc->extend(0x12345678, &from[shift], bytes)) << bytes;
      }
    }
  }
}

extern "C" {
int urnic_guarded_copy_fold_avx512(void*, const void*, size_t, uint8_t*,
                                   uint32_t, const void*);
int urnic_guarded_copy_fold_sse(void*, const void*, size_t, uint8_t*, uint32_t,
                                const void*);
}

TEST(GuardedMemoryFoldTest, AllHashImplementationsAgree) {
  std::vector<uint8_t> from(4096);
  for (size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<uint8_t>(i * i * 41 + 3);
  for (const wire::FoldingCrc* crc : kCrcs) {
    for (size_t bytes = 256; bytes <= from.size(); bytes += 256) {
      const uint32_t expected = crc->extend(77, from.data(), bytes);
      std::vector<uint8_t> to(bytes);
      uint8_t left[256];
      ASSERT_EQ(urnic_guarded_copy_fold_sse(to.data(), from.data(), bytes, left,
                                            77, &crc->by128),
                0);
      ASSERT_EQ(crc->extend(0, left, 128), expected) << bytes;
      ASSERT_EQ(std::memcmp(to.data(), from.data(), bytes), 0);
      if (!__builtin_cpu_supports("vpclmulqdq") ||
          !__builtin_cpu_supports("avx512f")) {
        continue;
      }
      std::fill(to.begin(), to.end(), 0);
      ASSERT_EQ(urnic_guarded_copy_fold_avx512(to.data(), from.data(), bytes,
                                               left, 77, &crc->by256),
                0);
      ASSERT_EQ(crc->extend(0, left, 256), expected) << bytes;
      ASSERT_EQ(std::memcmp(to.data(), from.data(), bytes), 0);
    }
  }
}

TEST_P(GuardedMemoryTest, AHashingCopyReportsMissingMemory) {
  std::vector<uint8_t> mine(kPage);
  uint32_t state = 0;
  for (const size_t bytes : {8u, 256u, 1024u, 1100u}) {
    uint8_t* edge = page_ + kPage - bytes;
    EXPECT_TRUE(GuardedCopyHashed(GetParam(), mine.data(), edge, bytes,
                                  wire::kFoldingIcrc, &state));
    EXPECT_FALSE(GuardedCopyHashed(GetParam(), mine.data(), edge + 1, bytes,
                                   wire::kFoldingIcrc, &state));
    EXPECT_FALSE(GuardedCopyHashed(GetParam(), edge + 1, mine.data(), bytes,
                                   wire::kFoldingIcrc, &state));
  }
}

TEST_P(GuardedMemoryTest, AMissingTargetOrSourceIsReported) {
  std::vector<uint8_t> mine(kPage);
  for (const size_t bytes : {1u, 3u, 7u, 8u, 15u, 16u, 17u, 64u, 511u, 2000u}) {
    uint8_t* edge = page_ + kPage - bytes + 1;  // one byte too far
    EXPECT_FALSE(GuardedCopy(GetParam(), edge, mine.data(), bytes)) << bytes;
    EXPECT_FALSE(GuardedCopy(GetParam(), mine.data(), edge, bytes)) << bytes;
    EXPECT_TRUE(GuardedCopy(GetParam(), edge - 1, mine.data(), bytes)) << bytes;
  }
}

TEST_P(GuardedMemoryTest, AReadOnlyTargetIsReported) {
  ASSERT_EQ(mprotect(page_, kPage, PROT_READ), 0);
  const uint64_t value = 1;
  EXPECT_FALSE(GuardedCopy(GetParam(), page_, &value, 8));
}

TEST_P(GuardedMemoryTest, AtomicsReturnThePreviousValue) {
  alignas(8) uint64_t word = 5;
  uint64_t before = 0;
  const auto at = reinterpret_cast<uint64_t>(&word);
  EXPECT_TRUE(GuardedFetchAdd(GetParam(), at, 3, &before));
  EXPECT_EQ(before, 5u);
  EXPECT_TRUE(GuardedCompareSwap(GetParam(), at, 8, 9, &before));
  EXPECT_EQ(before, 8u);
  EXPECT_TRUE(GuardedCompareSwap(GetParam(), at, 8, 10, &before));
  EXPECT_EQ(word, 9u);
  const auto gone = reinterpret_cast<uint64_t>(page_ + kPage);
  EXPECT_FALSE(GuardedFetchAdd(GetParam(), gone, 1, &before));
  EXPECT_FALSE(GuardedCompareSwap(GetParam(), gone, 1, 2, &before));
}

TEST_P(GuardedMemoryTest, AnAtomicOnReadOnlyMemoryIsReported) {
  ASSERT_EQ(mprotect(page_, kPage, PROT_READ), 0);
  const auto at = reinterpret_cast<uint64_t>(page_);
  uint64_t before = 0;
  EXPECT_FALSE(GuardedFetchAdd(GetParam(), at, 3, &before));
  EXPECT_FALSE(GuardedCompareSwap(GetParam(), at, 0, 9, &before)) << "equal";
  EXPECT_FALSE(GuardedCompareSwap(GetParam(), at, 8, 9, &before));
}

// Without the guard such a thread dies of its fault, whatever the handler.
TEST_P(GuardedMemoryTest, AThreadThatBlocksTheSignalsSurvives) {
  if (GetParam() == CopyMode::kGuarded) GTEST_SKIP() << "needs the signals";
  ASSERT_EQ(mprotect(page_, kPage, PROT_READ), 0);
  const auto read_only = reinterpret_cast<uint64_t>(page_);
  const uint64_t gone = read_only + kPage;
  alignas(8) uint64_t word = 5;
  const auto good = reinterpret_cast<uint64_t>(&word);
  std::thread([&] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    sigaddset(&set, SIGBUS);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    const CopyMode mode = CopyModeOfThisThread();
    uint64_t value = 1;
    for (const uint64_t at : {read_only, gone}) {
      auto* const target = reinterpret_cast<void*>(at);
      EXPECT_FALSE(GuardedFetchAdd(mode, at, 3, &value));
      EXPECT_FALSE(GuardedCompareSwap(mode, at, 0, 9, &value));
      EXPECT_FALSE(GuardedCopy(mode, target, &value, 8));
    }
    EXPECT_TRUE(GuardedFetchAdd(mode, good, 3, &value));
    EXPECT_EQ(value, 5u);
    EXPECT_TRUE(GuardedCompareSwap(mode, good, 8, 9, &value));
    EXPECT_EQ(value, 8u);
    sigset_t after;
    pthread_sigmask(SIG_BLOCK, nullptr, &after);
    EXPECT_TRUE(sigismember(&after, SIGSEGV) == 1 &&
                sigismember(&after, SIGBUS) == 1)
        << "blocked as before";
  }).join();
  EXPECT_EQ(word, 9u);
}

INSTANTIATE_TEST_SUITE_P(Modes, GuardedMemoryTest,
                         ::testing::Values(CopyMode::kGuarded,
                                           CopyMode::kThroughKernel));

TEST(GuardedMemoryDeathTest, AFaultOfTheProgramReachesTheProgram) {
  InstallMemoryGuard(nullptr, nullptr);
  void* page =
      mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EXIT(*static_cast<volatile int*>(page) = 1,
              ::testing::KilledBySignal(SIGSEGV), "");
  munmap(page, 4096);
}

TEST(CopyModeTest, AThreadThatBlocksTheSignalsCopiesThroughTheKernel) {
  EXPECT_EQ(CopyModeOfThisThread(), CopyMode::kGuarded);
  CopyMode other = CopyMode::kGuarded;
  std::thread([&] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    other = CopyModeOfThisThread();
  }).join();
  EXPECT_EQ(other, CopyMode::kThroughKernel);
}

// A program that spins on the last byte of a Write must find all of it.
class TearingTest : public ::testing::TestWithParam<CopyMode> {};

TEST_P(TearingTest, TheLastByteIsVisibleOnlyAfterAllOthers) {
  for (const size_t bytes :
       {8u, 9u, 16u, 24u, 64u, 256u, 1000u, 1024u, 4096u}) {
    std::vector<uint8_t> target(bytes + 64);
    uint8_t* const at = target.data() + 5;
    std::atomic<int> round{0};
    std::atomic<bool> torn{false};
    std::thread watcher([&] {
      for (int r = 1; r <= 150; ++r) {
        const auto mark = static_cast<uint8_t>(r % 250 + 1);
        volatile uint8_t* last = at + bytes - 1;
        for (int spins = 1; *last != mark; ++spins) {
          if (spins % 4096 == 0) std::this_thread::yield();
        }
        std::atomic_thread_fence(std::memory_order_acquire);
        for (size_t i = 0; i < bytes; ++i) {
          if (static_cast<volatile uint8_t*>(at)[i] != mark) torn = true;
        }
        round.store(r, std::memory_order_release);
      }
    });
    for (int r = 1; r <= 150; ++r) {
      std::vector<uint8_t> from(bytes, static_cast<uint8_t>(r % 250 + 1));
      ASSERT_TRUE(GuardedCopy(GetParam(), at, from.data(), bytes));
      while (round.load(std::memory_order_acquire) != r) {
        std::this_thread::yield();
      }
    }
    watcher.join();
    EXPECT_FALSE(torn) << bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, TearingTest,
                         ::testing::Values(CopyMode::kGuarded,
                                           CopyMode::kThroughKernel));

}  // namespace
}  // namespace urnic
