#pragma once

// A cache with a fake registrar, and memory whose place in its fragments is
// known.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "verbs/regcache/cache.h"
#include "verbs/regcache/space.h"
#include "verbs/regcache/testing/fake_registrar.h"

namespace urnic::regcache {

constexpr uint32_t kLocalRead = 0;
constexpr uint32_t kLocalWrite = 1;  // of ibv_access_flags
constexpr uint32_t kRemoteWrite = 2;
constexpr uint32_t kRemoteRead = 4;
constexpr uint32_t kRelaxedOrdering = 1 << 20;

// Addresses of whole fragments that nobody else uses, not accessible until
// mapped. By direct system calls, which no cache sees.
class Fragments {
 public:
  explicit Fragments(size_t count, uint64_t at = 0) {
    bytes_ = (count + 2) * kFragmentBytes;
    const long got =
        syscall(SYS_mmap, at, bytes_, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(got, -1);
    all_ = static_cast<uint64_t>(got);
    begin_ = (all_ + kFragmentBytes) & ~(kFragmentBytes - 1);
  }
  ~Fragments() { syscall(SYS_munmap, all_, bytes_); }
  Fragments(const Fragments&) = delete;
  Fragments& operator=(const Fragments&) = delete;

  uint64_t begin() const { return begin_; }
  Range At(uint64_t offset, uint64_t bytes) const {
    return {begin_ + offset, begin_ + offset + bytes};
  }
  Range Map(uint64_t offset, uint64_t bytes,
            int prot = PROT_READ | PROT_WRITE) const {
    const Range range = At(offset, bytes);
    const long got =
        syscall(SYS_mmap, range.begin, bytes, prot,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    EXPECT_EQ(static_cast<uint64_t>(got), range.begin);
    return range;
  }

 private:
  uint64_t all_;
  uint64_t begin_;
  size_t bytes_;
};

inline void* Pointer(Range range) {
  return reinterpret_cast<void*>(range.begin);
}

class CacheTest : public testing::Test {
 protected:
  void Open(const CacheOptions& options = {}) {
    cache_ = Cache::Create(Space::Of(), fake_.registrar(), options);
    ASSERT_NE(cache_, nullptr);
  }
  void TearDown() override {
    if (cache_ != nullptr) {
      EXPECT_EQ(Cache::Close(cache_, nullptr), 0);
    }
    EXPECT_EQ(fake_.live, 0);
    EXPECT_EQ(fake_.wrong_deregs, 0u);
  }
  // Null on an error, which is in errno.
  Entry* Get(Range buffer, uint32_t access = kLocalWrite) {
    Entry* use = nullptr;
    errno = cache_->Get(buffer, access, &use);
    if (errno != 0) return nullptr;
    EXPECT_TRUE(RegionOf(use).live);
    EXPECT_TRUE(RegionOf(use).range.Covers(buffer));
    return use;
  }
  void Put(Entry* use) { EXPECT_EQ(cache_->Put(use), 0); }
  // The region that a use of the buffer gets.
  Range GetPut(Range buffer, uint32_t access = kLocalWrite) {
    Entry* use = Get(buffer, access);
    if (use == nullptr) return {};
    const Range range = RegionOf(use).range;
    Put(use);
    return range;
  }
  static const FakeRegistrar::Region& RegionOf(const Entry* use) {
    return FakeRegistrar::RegionOf(use->mr.load());
  }
  void Ticks(int n) {
    for (int i = 0; i < n; ++i) Space::Of().Tick();
  }

  FakeRegistrar fake_;
  Cache* cache_ = nullptr;
};

}  // namespace urnic::regcache
