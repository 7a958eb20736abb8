// What is registered, and until when. The clock is Space::Tick().

#include "verbs/regcache/cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <vector>

#include "verbs/regcache/testing/cache_fixture.h"

namespace urnic::regcache {
namespace {

constexpr uint64_t kMb = 1 << 20;

// --- What is registered ------------------------------------------------------

TEST_F(CacheTest, AMissRegistersTheWholeFragment) {
  Open();
  const Fragments memory(1);
  const Range all = memory.Map(0, kFragmentBytes);
  EXPECT_EQ(GetPut(memory.At(5 * kMb + 7, 100)), all);
  EXPECT_EQ(GetPut(memory.At(0, 1)), all);
  EXPECT_EQ(GetPut(memory.At(kFragmentBytes - 1, 1)), all);
  EXPECT_EQ(fake_.regs, 1u);
  EXPECT_EQ(cache_->ReadStats().hits, 2u);
  EXPECT_EQ(cache_->ReadStats().misses, 1u);
  EXPECT_EQ(cache_->ReadStats().bytes, kFragmentBytes);
}

TEST_F(CacheTest, HolesAndTheirOtherSideAreLeftOut) {
  Open();
  const Fragments memory(1);
  memory.Map(0, kMb);
  const Range middle = memory.Map(2 * kMb, 3 * kMb);
  memory.Map(6 * kMb, kMb);
  EXPECT_EQ(GetPut(memory.At(3 * kMb, 10)), middle);
  EXPECT_EQ(GetPut(memory.At(0, 10)), memory.At(0, kMb));
  EXPECT_EQ(fake_.regs, 2u);
}

TEST_F(CacheTest, ReadOnlyPagesAreLeftOutOfWhatIsWritten) {
  Open();
  const Fragments memory(1);
  const Range written = memory.Map(0, kMb);
  memory.Map(kMb, kMb, PROT_READ);
  EXPECT_EQ(GetPut(memory.At(10, 10), kLocalWrite), written);
  EXPECT_EQ(GetPut(memory.At(kMb, 10), kLocalRead), memory.At(0, 2 * kMb));
}

TEST_F(CacheTest, WhatIsNotMappedIsLeftToTheRegistrar) {
  Open();
  const Fragments memory(1);
  fake_.on_reg = [](Range) { return EFAULT; };
  EXPECT_EQ(Get(memory.At(0, 100)), nullptr);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(cache_->ReadStats().registrations, 0u);
  EXPECT_EQ(cache_->ReadStats().bytes, 0u);
}

TEST_F(CacheTest, ABufferOverSeveralFragmentsHasOneRegion) {
  Open();
  const Fragments memory(3);
  const Range all = memory.Map(0, 3 * kFragmentBytes);
  EXPECT_EQ(GetPut(memory.At(kFragmentBytes - 5, kFragmentBytes + 10)), all);
  EXPECT_EQ(GetPut(memory.At(2 * kFragmentBytes + 1, 10)), all);
  EXPECT_EQ(fake_.regs, 1u);
}

TEST_F(CacheTest, ALargerRegionTakesThePlaceOfThoseWithinIt) {
  Open();
  const Fragments memory(2);
  memory.Map(0, 2 * kFragmentBytes);
  GetPut(memory.At(0, 10));
  GetPut(memory.At(kFragmentBytes, 10));
  EXPECT_EQ(GetPut(memory.At(kFragmentBytes - 5, 10)),
            memory.At(0, 2 * kFragmentBytes));
  Ticks(1);
  EXPECT_EQ(fake_.live, 1);
  GetPut(memory.At(0, 10));
  EXPECT_EQ(fake_.regs, 3u);
}

TEST_F(CacheTest, MoreRightsServeForFewerAndNotTheOtherWayRound) {
  Open();
  const Fragments memory(1);
  memory.Map(0, kMb);
  const Range buffer = memory.At(0, 10);
  GetPut(buffer, kLocalWrite);
  GetPut(buffer, kLocalWrite | kRemoteWrite);
  EXPECT_EQ(fake_.regs, 2u);
  GetPut(buffer, kLocalWrite);
  GetPut(buffer, kRemoteWrite | kLocalWrite);
  EXPECT_EQ(fake_.regs, 2u);
  Ticks(1);
  EXPECT_EQ(fake_.live, 1) << "the wider one stands in for the other";
  GetPut(buffer, kLocalWrite | kRemoteRead);
  EXPECT_EQ(fake_.regs, 3u);
}

TEST_F(CacheTest, AFlagThatIsNotARightMustBeTheSame) {
  Open();
  const Fragments memory(1);
  memory.Map(0, kMb);
  GetPut(memory.At(0, 10), kLocalWrite | kRelaxedOrdering);
  GetPut(memory.At(0, 10), kLocalWrite);
  EXPECT_EQ(fake_.regs, 2u);
}

TEST_F(CacheTest, PagesOnlyIfTheRestCannotBeRegistered) {
  Open({.idle_ticks = 3});
  const Fragments memory(1);
  memory.Map(0, 4 * kMb);
  int refused = 0;
  fake_.on_reg = [&](Range range) {
    if (range.bytes() <= kMb) return 0;
    ++refused;
    return ENOMEM;
  };
  EXPECT_EQ(GetPut(memory.At(5000, 10)), memory.At(4096, 4096));
  EXPECT_EQ(GetPut(memory.At(9000, 10)), memory.At(8192, 4096));
  EXPECT_EQ(refused, 1) << "it is remembered";
  Ticks(3);
  GetPut(memory.At(20000, 10));
  EXPECT_EQ(refused, 2) << "but not forever";
}

TEST_F(CacheTest, PagesOnlyIfTheProgramWantsThat) {
  Open({.pages_only = true});
  const Fragments memory(1);
  memory.Map(0, 4 * kMb);
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(GetPut(memory.At(i * 8192 + 100, 10)), memory.At(i * 8192, 4096));
  }
  for (uint64_t i = 0; i < 20; ++i) GetPut(memory.At(i * 8192, 4096));
  EXPECT_EQ(fake_.regs, 20u);
}

TEST_F(CacheTest, AddressesOfAllSegmentsAreToldApart) {
  Open();
  std::vector<std::unique_ptr<Fragments>> places;
  // The same place in a hundred segments, some of them in one bucket.
  for (uint64_t i = 1; i <= 100; ++i) {
    places.push_back(
        std::make_unique<Fragments>(1, (i * 256 + i / 50) << kSegmentBits));
    places.back()->Map(0, kMb);
  }
  for (int round = 0; round < 2; ++round) {
    for (const auto& place : places) {
      EXPECT_EQ(GetPut(place->At(0, 10)), place->At(0, kMb));
    }
  }
  EXPECT_EQ(fake_.regs, 100u);
  Space::Of().Changed({0, kAddressEnd});
  Ticks(1);
  EXPECT_EQ(fake_.live, 0);
}

// --- Until when --------------------------------------------------------------

TEST_F(CacheTest, WhatIsIdleEnds) {
  Open({.idle_ticks = 3});
  const Fragments memory(2);
  memory.Map(0, 2 * kFragmentBytes);
  GetPut(memory.At(0, 10));
  GetPut(memory.At(kFragmentBytes, 10));
  Ticks(2);
  GetPut(memory.At(0, 10));
  Ticks(2);
  EXPECT_EQ(fake_.live, 1) << "a use sets the count to zero";
  Ticks(2);
  EXPECT_EQ(fake_.live, 0);
  EXPECT_EQ(cache_->ReadStats().idle_ends, 2u);
  EXPECT_EQ(cache_->ReadStats().bytes, 0u);
}

TEST_F(CacheTest, WhatIsInUseIsNotIdle) {
  Open({.idle_ticks = 2});
  const Fragments memory(1);
  memory.Map(0, kMb);
  Entry* use = Get(memory.At(0, 10));
  Ticks(10);
  EXPECT_EQ(fake_.live, 1);
  Put(use);
  Ticks(1);
  EXPECT_EQ(fake_.live, 1) << "it is idle since its put";
  Ticks(2);
  EXPECT_EQ(fake_.live, 0);
}

TEST_F(CacheTest, TheLeastRecentlyUsedMakesRoom) {
  Open({.max_registrations = 3});
  const Fragments memory(4);
  memory.Map(0, 4 * kFragmentBytes);
  for (uint64_t i = 0; i < 3; ++i) GetPut(memory.At(i * kFragmentBytes, 10));
  Ticks(1);
  GetPut(memory.At(0, 10));
  Ticks(1);
  GetPut(memory.At(2 * kFragmentBytes, 10));
  GetPut(memory.At(3 * kFragmentBytes, 10));
  EXPECT_EQ(fake_.live, 3);
  GetPut(memory.At(0, 10));
  GetPut(memory.At(2 * kFragmentBytes, 10));
  EXPECT_EQ(fake_.regs, 4u);
  EXPECT_EQ(cache_->ReadStats().evictions, 1u);
}

TEST_F(CacheTest, TheLimitOfBytesHolds) {
  Open({.max_bytes = 2 * kFragmentBytes});
  const Fragments memory(4);
  memory.Map(0, 4 * kFragmentBytes);
  for (uint64_t i = 0; i < 4; ++i) {
    GetPut(memory.At(i * kFragmentBytes, 10));
    EXPECT_LE(fake_.live_bytes, static_cast<int64_t>(2 * kFragmentBytes));
  }
  EXPECT_EQ(fake_.live, 2);
  // What does not fit as a whole is registered by its pages.
  Entry* first = Get(memory.At(2 * kFragmentBytes, 10));
  EXPECT_EQ(GetPut(memory.At(kFragmentBytes - 4096, 4097)),
            memory.At(kFragmentBytes - 4096, 8192));
  Put(first);
  EXPECT_EQ(Get(memory.At(0, 2 * kFragmentBytes + 1)), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST_F(CacheTest, ARegistrationThatFailsForMemoryMakesOthersEnd) {
  Open();
  const Fragments memory(4);
  memory.Map(0, 4 * kFragmentBytes);
  fake_.on_reg = [this](Range) { return fake_.live < 2 ? 0 : ENOMEM; };
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_NE(GetPut(memory.At(i * kFragmentBytes, 10)), Range{});
  }
  EXPECT_EQ(fake_.live, 2);
  EXPECT_EQ(cache_->ReadStats().evictions, 2u);
}

TEST_F(CacheTest, NothingInUseMakesRoom) {
  Open({.max_registrations = 2});
  const Fragments memory(3);
  memory.Map(0, 3 * kFragmentBytes);
  Entry* first = Get(memory.At(0, 10));
  Entry* second = Get(memory.At(kFragmentBytes, 10));
  EXPECT_EQ(Get(memory.At(2 * kFragmentBytes, 10)), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  Put(first);
  EXPECT_NE(GetPut(memory.At(2 * kFragmentBytes, 10)), Range{});
  Put(second);
}

TEST_F(CacheTest, AFailedDeregistrationIsRepeated) {
  Open({.idle_ticks = 1});
  const Fragments memory(1);
  memory.Map(0, kMb);
  GetPut(memory.At(0, 10));
  fake_.on_dereg = [] { return EBUSY; };
  Ticks(2);
  EXPECT_EQ(fake_.live, 1);
  EXPECT_EQ(cache_->ReadStats().failed_deregs, 1u);
  EXPECT_EQ(Cache::Close(cache_, nullptr), EBUSY);
  fake_.on_dereg = nullptr;
  Ticks(1);
  EXPECT_EQ(fake_.live, 0);
}

TEST_F(CacheTest, CloseSaysHowManyUsesKeepItOpen) {
  Open();
  const Fragments memory(2);
  memory.Map(0, 2 * kFragmentBytes);
  Entry* first = Get(memory.At(0, 10));
  Entry* again = Get(memory.At(0, 20));
  Entry* other = Get(memory.At(kFragmentBytes, 10));
  uint64_t uses = 0;
  EXPECT_EQ(Cache::Close(cache_, &uses), EBUSY);
  EXPECT_EQ(uses, 3u);
  EXPECT_EQ(fake_.live, 2);
  GetPut(memory.At(0, 10));
  EXPECT_EQ(fake_.regs, 2u) << "the cache is as it was";
  for (Entry* use : {first, again, other}) Put(use);
}

TEST_F(CacheTest, WhatIsNotInUseCannotBeGivenBack) {
  Open();
  const Fragments memory(1);
  memory.Map(0, kMb);
  Entry* use = Get(memory.At(0, 10));
  Put(use);
  EXPECT_EQ(cache_->Put(use), EINVAL);
  EXPECT_EQ(cache_->EntryOf(&fake_), nullptr);
  EXPECT_EQ(cache_->EntryOf(reinterpret_cast<char*>(use) + 8), nullptr);
  EXPECT_EQ(cache_->EntryOf(use), use);
}

// --- Changes -----------------------------------------------------------------

TEST_F(CacheTest, AChangeEndsWhatItTouches) {
  Open();
  const Fragments memory(2);
  memory.Map(0, 2 * kFragmentBytes);
  GetPut(memory.At(0, 10));
  GetPut(memory.At(kFragmentBytes, 10));
  Space::Of().Changed(memory.At(kFragmentBytes - 1, 1));
  Ticks(1);
  EXPECT_EQ(fake_.live, 1);
  GetPut(memory.At(kFragmentBytes, 10));
  EXPECT_EQ(fake_.regs, 2u);
  GetPut(memory.At(0, 10));
  EXPECT_EQ(fake_.regs, 3u);
  EXPECT_EQ(cache_->ReadStats().invalidations, 1u);
}

TEST_F(CacheTest, AUseOutlivesTheChange) {
  Open();
  const Fragments memory(1);
  memory.Map(0, kMb);
  Entry* old = Get(memory.At(0, 10));
  Entry* same = Get(memory.At(0, 10));
  EXPECT_EQ(old, same);
  Space::Of().Changed(memory.At(0, 1));
  Entry* renewed = Get(memory.At(0, 10));
  EXPECT_NE(renewed, old);
  Ticks(1);
  EXPECT_EQ(fake_.live, 2);
  Put(old);
  EXPECT_EQ(fake_.live, 2);
  Put(same);
  EXPECT_EQ(fake_.live, 1) << "at its last put";
  Put(renewed);
}

TEST_F(CacheTest, AChangeDuringARegistrationLeavesItForThisUseOnly) {
  Open();
  const Fragments memory(1);
  memory.Map(0, kMb);
  fake_.on_reg = [&](Range) {
    Space::Of().Changed(memory.At(kMb / 2, 4096));
    return 0;
  };
  Entry* use = Get(memory.At(0, 10));
  fake_.on_reg = nullptr;
  Entry* second = Get(memory.At(0, 10));
  EXPECT_NE(use, second);
  Put(use);
  EXPECT_EQ(fake_.live, 1);
  Put(second);
  EXPECT_EQ(cache_->ReadStats().uncached, 1u);
}

TEST_F(CacheTest, WhatIsBeingChangedIsLeftOutOfARegistration) {
  Open();
  const Fragments memory(1);
  memory.Map(0, 4 * kMb);
  const Range behind = memory.At(2 * kMb, 4096);
  const int token = Space::Of().BeforeChange(behind);
  EXPECT_EQ(GetPut(memory.At(kMb, 10)), memory.At(0, 2 * kMb));
  EXPECT_EQ(GetPut(memory.At(3 * kMb, 10)),
            memory.At(2 * kMb + 4096, 2 * kMb - 4096));
  Space::Of().AfterChange(token, behind);
  EXPECT_EQ(GetPut(memory.At(kMb, 2 * kMb)), memory.At(0, 4 * kMb));
}

TEST_F(CacheTest, WithMoreChangesThanCanBeCountedOnlyPagesAreRegistered) {
  Open();
  const Fragments memory(2);
  memory.Map(0, 4 * kMb);
  std::array<int, 70> tokens;
  for (int& token : tokens) {
    token = Space::Of().BeforeChange(memory.At(kFragmentBytes, 4096));
  }
  EXPECT_EQ(GetPut(memory.At(kMb, 10)), memory.At(kMb, 4096));
  for (const int token : tokens) {
    Space::Of().AfterChange(token, memory.At(kFragmentBytes, 4096));
  }
  EXPECT_EQ(GetPut(memory.At(2 * kMb, 10)), memory.At(0, 4 * kMb));
}

TEST_F(CacheTest, AChildHasNoCache) {
  Open();
  const Fragments memory(1);
  memory.Map(0, kMb);
  Entry* use = Get(memory.At(0, 10));
  // The handlers of fork are registered with the threads.
  ASSERT_EQ(Space::Of().StartThreads(), 0);
  const pid_t child = fork();
  if (child == 0) {
    Entry* found = nullptr;
    const bool refused =
        cache_->Get(memory.At(0, 10), kLocalWrite, &found) == EIO &&
        Space::Of().forked() && Space::Of().StartThreads() == EIO &&
        munmap(Pointer(memory.At(0, 1)), 4096) == 0;
    _exit(refused ? 0 : 1);
  }
  int status = 1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Get(memory.At(0, 10)), use);
  Put(use);
  Put(use);
  Space::Of().StopThreads();
}

}  // namespace
}  // namespace urnic::regcache
