// Each call that changes memory is seen, whether a process may ask the kernel
// or not: the kernel's reports are off here.

#include <gtest/gtest.h>
#include <sys/shm.h>

#include <functional>
#include <string>

#include "verbs/regcache/testing/cache_fixture.h"

namespace urnic::regcache {
namespace {

constexpr uint64_t kPage = kPageBytes;

struct Call {
  std::string name;
  bool changes;
  // The second page of four.
  std::function<void(void* page)> call;
};

class HooksTest : public CacheTest, public testing::WithParamInterface<Call> {};

TEST_P(HooksTest, IsSeen) {
  Open();
  const Fragments memory(1);
  const Range all = memory.Map(0, 4 * kPage);
  EXPECT_EQ(GetPut(all), all);
  errno = 0;
  GetParam().call(Pointer(memory.At(kPage, kPage)));
  EXPECT_EQ(errno, 0);
  GetPut(memory.At(0, kPage));
  EXPECT_EQ(fake_.regs, GetParam().changes ? 2u : 1u);
  Ticks(1);
  EXPECT_EQ(fake_.live, 1);
}

INSTANTIATE_TEST_SUITE_P(
    All, HooksTest,
    testing::Values(
        Call{"munmap", true, [](void* p) { munmap(p, kPage); }},
        Call{"mmap", true,
             [](void* p) {
               mmap(p, kPage, PROT_READ,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
             }},
        Call{"mmap64", true,
             [](void* p) {
               mmap64(p, kPage, PROT_READ,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
             }},
        Call{"mmap_elsewhere", false,
             [](void*) {
               munmap(mmap(nullptr, kPage, PROT_READ,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                      kPage);
             }},
        Call{"mremap_from", true,
             [](void* p) {
               const Fragments other(1);
               EXPECT_NE(mremap(p, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED,
                                Pointer(other.At(0, kPage))),
                         MAP_FAILED);
             }},
        Call{"mremap_to", true,
             [](void* p) {
               const Fragments other(1);
               EXPECT_EQ(mremap(Pointer(other.Map(0, kPage)), kPage, kPage,
                                MREMAP_MAYMOVE | MREMAP_FIXED, p),
                         p);
             }},
        Call{"madvise_dontneed", true,
             [](void* p) { madvise(p, kPage, MADV_DONTNEED); }},
        Call{"madvise_free", true,
             [](void* p) { madvise(p, kPage, MADV_FREE); }},
        Call{"madvise_willneed", false,
             [](void* p) { madvise(p, kPage, MADV_WILLNEED); }},
        Call{"mprotect", true, [](void* p) { mprotect(p, kPage, PROT_READ); }},
        Call{"pkey_mprotect", true,
             [](void* p) { pkey_mprotect(p, kPage, PROT_READ, -1); }}),
    [](const auto& info) { return info.param.name; });

TEST_F(CacheTest, SharedMemoryThatIsDetachedAndAttachedAgain) {
  Open();
  const int first = shmget(IPC_PRIVATE, 4 * kPage, IPC_CREAT | 0600);
  const int second = shmget(IPC_PRIVATE, 4 * kPage, IPC_CREAT | 0600);
  void* at = shmat(first, nullptr, 0);
  const Range range = RangeOf(at, 4 * kPage);
  GetPut(range);
  EXPECT_EQ(shmdt(at), 0);
  EXPECT_EQ(shmat(second, at, 0), at);
  GetPut(range);
  EXPECT_EQ(fake_.regs, 2u);
  EXPECT_EQ(shmat(first, at, SHM_REMAP), at);
  GetPut(range);
  EXPECT_EQ(fake_.regs, 3u);
  EXPECT_EQ(shmdt(at), 0);
  shmctl(first, IPC_RMID, nullptr);
  shmctl(second, IPC_RMID, nullptr);
}

TEST_F(CacheTest, AHeapThatShrinks) {
  Open();
  char* at = static_cast<char*>(sbrk(0));
  const uint64_t past = reinterpret_cast<uint64_t>(at) % kPage;
  char* begin = at + (past == 0 ? 0 : kPage - past);
  const Range page = RangeOf(begin, kPage);
  for (const bool by_brk : {false, true}) {
    ASSERT_EQ(brk(begin + kPage), 0);
    const uint64_t before = fake_.regs;
    GetPut(page);
    if (by_brk) {
      EXPECT_EQ(brk(begin), 0);
    } else {
      EXPECT_NE(sbrk(-static_cast<intptr_t>(kPage)),
                reinterpret_cast<void*>(-1));
    }
    ASSERT_EQ(brk(begin + kPage), 0);
    GetPut(page);
    EXPECT_EQ(fake_.regs, before + 2);
    ASSERT_EQ(brk(at), 0);
  }
}

}  // namespace
}  // namespace urnic::regcache
