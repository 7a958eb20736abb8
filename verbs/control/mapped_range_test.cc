#include "verbs/control/mapped_range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <string>

namespace urnic::control {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kMaps[] = {
    "10000-20000 r--p 00000000 08:01 1 /bin/x",
    "20000-30000 rw-p 00000000 00:00 0",
    "30000-31000 ---p 00000000 00:00 0",
    "31000-32000 r-xp 00000000 00:00 0 [a name with 0-1 rw-p]",
    "7fff00000000-7fff00001000 rw-s 00000000 00:00 0",
};

absl::Status Check(uint64_t address, uint64_t bytes, bool writable) {
  MappedRangeCheck check(address, bytes, writable);
  for (std::string_view line : kMaps) {
    if (!check.Line(line)) break;
  }
  return check.Result();
}

TEST(MappedRangeTest, FindsRangesWithinAndAcrossMappings) {
  EXPECT_TRUE(Check(0x10000, 0x10000, false).ok());
  EXPECT_TRUE(Check(0x1ffff, 1, false).ok());
  EXPECT_TRUE(Check(0x1ffff, 2, false).ok());
  EXPECT_TRUE(Check(0x20000, 0x10000, true).ok());
  EXPECT_TRUE(Check(0x31fff, 1, false).ok());
  EXPECT_TRUE(Check(0x7fff00000800, 0x800, true).ok());
}

TEST(MappedRangeTest, NamesTheFirstAddressThatFails) {
  const auto text = [](uint64_t address, uint64_t bytes, bool writable) {
    const absl::Status s = Check(address, bytes, writable);
    EXPECT_EQ(s.code(), absl::StatusCode::kOutOfRange);
    return std::string(s.message());
  };
  EXPECT_THAT(text(0xffff, 2, false), HasSubstr("0xffff is not mapped"));
  EXPECT_THAT(text(0x31000, 0x1001, false), HasSubstr("0x32000 is not mapped"));
  EXPECT_THAT(text(0x7fff00001000, 1, false), HasSubstr("not mapped"));
  EXPECT_THAT(text(0x1f000, 0x2000, true),
              HasSubstr("0x1f000 is not writable"));
  EXPECT_THAT(text(0x20000, 0x10001, true),
              HasSubstr("0x30000 is not writable"));
  EXPECT_THAT(text(0x30000, 8, false), HasSubstr("not readable"));
}

// By the kernel's query for one address, and by reading the maps file.
class AgreementTest : public ::testing::TestWithParam<MapsSource> {};

TEST_P(AgreementTest, AgreesWithTheKernel) {
  constexpr size_t kPage = 4096;
  auto* pages =
      static_cast<uint8_t*>(mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  const uint64_t at = reinterpret_cast<uint64_t>(pages);
  ASSERT_EQ(mprotect(pages + kPage, kPage, PROT_READ), 0);
  ASSERT_EQ(munmap(pages + 2 * kPage, kPage), 0);
  const auto mapped = [](uint64_t address, uint64_t bytes, bool writable) {
    return CheckMapped(address, bytes, writable, GetParam()).ok();
  };
  EXPECT_TRUE(mapped(at, 2 * kPage, false));
  EXPECT_TRUE(mapped(at, kPage, true));
  EXPECT_FALSE(mapped(at, kPage + 1, true));
  EXPECT_FALSE(mapped(at, 2 * kPage + 1, false));
  EXPECT_TRUE(mapped(at + 3 * kPage, kPage, true));
  EXPECT_FALSE(mapped(0, 1, false));
  EXPECT_FALSE(mapped(uint64_t{1} << 62, 1, false));
  int local = 0;
  EXPECT_TRUE(mapped(reinterpret_cast<uint64_t>(&local), 4, true));
  munmap(pages, 2 * kPage);
  munmap(pages + 3 * kPage, kPage);
}

INSTANTIATE_TEST_SUITE_P(Sources, AgreementTest,
                         ::testing::Values(MapsSource::kAny,
                                           MapsSource::kText));

}  // namespace
}  // namespace urnic::control
