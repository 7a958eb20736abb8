#include "verbs/regcache/mapped_run.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "verbs/regcache/testing/cache_fixture.h"

namespace urnic::regcache {
namespace {

// As the kernel says it by address, and as its text says it.
Range Both(Range scope, Range want, bool writable) {
  const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  const Range by_text = MappedRunOfText(fd, scope, want, writable);
  close(fd);
  EXPECT_EQ(MappedRun(scope, want, writable), by_text);
  return by_text;
}

TEST(MappedRun, EndsAtHolesRightsAndTheScope) {
  const Fragments memory(3);
  const Range scope = memory.At(0, kFragmentBytes);
  memory.Map(4096, 4096);
  memory.Map(3 * 4096, 2 * 4096);
  memory.Map(5 * 4096, 4096, PROT_READ);
  memory.Map(6 * 4096, 4096);
  const Range want = memory.At(4 * 4096, 4096);
  EXPECT_EQ(Both(scope, want, false), memory.At(3 * 4096, 4 * 4096));
  EXPECT_EQ(Both(scope, want, true), memory.At(3 * 4096, 2 * 4096));
  EXPECT_EQ(Both(memory.At(4 * 4096, 2 * 4096), want, false),
            memory.At(4 * 4096, 2 * 4096));
  EXPECT_EQ(Both(scope, memory.At(6 * 4096, 4096), true),
            memory.At(6 * 4096, 4096));
  EXPECT_EQ(Both(scope, memory.At(4096, 4096), true), memory.At(4096, 4096));
}

TEST(MappedRun, IsWhatIsAskedForIfThatIsNotMapped) {
  const Fragments memory(3);
  memory.Map(4096, 4096);
  memory.Map(3 * 4096, 4096, PROT_READ);
  const Range scope = memory.At(0, kFragmentBytes);
  for (const Range want : {memory.At(0, 4096), memory.At(4096, 8192),
                           memory.At(10 * 4096, 4096)}) {
    EXPECT_EQ(Both(scope, want, false), want);
  }
  EXPECT_EQ(Both(scope, memory.At(3 * 4096, 4096), true),
            memory.At(3 * 4096, 4096));
}

TEST(MappedRun, MappingsSideBySideAreOne) {
  const Fragments memory(1);
  for (uint64_t i = 0; i < 64; ++i) {
    memory.Map(i * 4096, 4096, i % 2 == 0 ? PROT_READ : PROT_READ | PROT_WRITE);
  }
  EXPECT_EQ(Both(memory.At(0, kFragmentBytes), memory.At(32 * 4096, 10), false),
            memory.At(0, 64 * 4096));
}

}  // namespace
}  // namespace urnic::regcache
