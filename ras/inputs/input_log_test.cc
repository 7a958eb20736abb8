#include "ras/inputs/input_log.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace urnic {
namespace {

constexpr size_t kBytes = InputLog::kBytesMin;

std::span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

ParsedInputLog Parsed(const InputLog& log, std::string& text) {
  text.clear();
  log.AppendTo(text);
  std::span<const uint8_t> bytes = BytesOf(text);
  auto parsed = TakeInputLog(bytes);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(bytes.empty());
  return parsed.ok() ? *std::move(parsed) : ParsedInputLog{};
}

TEST(InputLogTest, WhatIsAddedIsRead) {
  InputLog log(0x123, kBytes);
  EXPECT_TRUE(log.WantsSegment());
  log.BeginSegment(7);
  EXPECT_FALSE(log.WantsSegment());
  const uint64_t value = 0x0123456789abcdef;
  const uint8_t tail[] = {1, 2, 3};
  log.Add({.kind = 1, .small = 2, .medium = 3, .large = 4});
  log.Add({.kind = 5, .body = BodyOf(value)}, tail);
  std::string text;
  const ParsedInputLog parsed = Parsed(log, text);
  EXPECT_EQ(parsed.qpn, 0x123u);
  EXPECT_EQ(parsed.layout, 7u);
  ASSERT_EQ(parsed.segments.size(), 1u);
  const std::vector<InputItem>& items = parsed.segments[0];
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].kind, 1);
  EXPECT_EQ(items[0].small, 2);
  EXPECT_EQ(items[0].medium, 3);
  EXPECT_EQ(items[0].large, 4u);
  EXPECT_TRUE(items[0].body.empty());
  EXPECT_EQ(items[1].kind, 5);
  ASSERT_EQ(items[1].body.size(), sizeof(value) + sizeof(tail));
  EXPECT_EQ(items[1].As<uint64_t>(), value);
  EXPECT_EQ(items[1].body[sizeof(value) + 2], 3);
}

TEST(InputLogTest, ABodyThatIsTooShortReadsAsZeros) {
  const uint8_t byte = 0xff;
  const InputItem item = {.kind = 1, .body = BodyOf(byte)};
  EXPECT_EQ(item.As<uint32_t>(), 0xffu);
}

// A log of one segment after the other: the last two are there, and whole.
TEST(InputLogTest, KeepsTheLastTwoSegments) {
  InputLog log(1, kBytes);
  uint32_t segments = 0;
  for (uint32_t i = 0; i < 10'000; ++i) {
    if (log.WantsSegment()) {
      log.BeginSegment(7);
      log.Add({.kind = 1, .large = segments++});
    }
    log.Add({.kind = 2, .large = i, .body = BodyOf(i)});
  }
  EXPECT_GT(segments, 4u);
  EXPECT_EQ(log.lost(), 0u);
  std::string text;
  const ParsedInputLog parsed = Parsed(log, text);
  EXPECT_LE(text.size(), kBytes + 64);
  ASSERT_EQ(parsed.segments.size(), 2u);
  uint32_t expected = 0;
  for (uint32_t s = 0; s < 2; ++s) {
    const std::vector<InputItem>& items = parsed.segments[s];
    EXPECT_EQ(items[0].kind, 1);
    EXPECT_EQ(items[0].large, segments - 2 + s);
    if (s == 0) expected = items[1].large;
    for (size_t i = 1; i < items.size(); ++i)
      ASSERT_EQ(items[i].large, expected++);
  }
  EXPECT_EQ(expected, 10'000u);
}

// Where no segment can begin, the log ends, and says so.
TEST(InputLogTest, WithoutRoomTheRestIsLost) {
  InputLog log(1, kBytes);
  log.BeginSegment(7);
  const std::vector<uint8_t> body(1000);
  for (uint32_t i = 0; i < 100; ++i)
    log.Add({.kind = 2, .large = i, .body = body});
  const uint64_t lost = log.lost();
  EXPECT_GT(lost, 0u);
  EXPECT_TRUE(log.WantsSegment());
  // Not even a short one: it would follow a gap.
  log.Add({.kind = 3});
  EXPECT_EQ(log.lost(), lost + 1);
  std::string text;
  ParsedInputLog parsed = Parsed(log, text);
  ASSERT_EQ(parsed.segments.size(), 1u);
  EXPECT_EQ(parsed.segments[0].size(), 100 - lost);
  log.BeginSegment(7);
  log.Add({.kind = 1});
  EXPECT_EQ(log.lost(), 0u);
  parsed = Parsed(log, text);
  EXPECT_EQ(parsed.segments.size(), 2u);
}

// Any bytes are a log or are refused, and no prefix of a log is one.
TEST(InputLogTest, DamagedLogsAreRefused) {
  InputLog log(1, kBytes);
  log.BeginSegment(7);
  const uint64_t value = 1;
  for (uint32_t i = 0; i < 4; ++i) log.Add({.kind = 2, .body = BodyOf(value)});
  std::string text;
  log.AppendTo(text);
  for (size_t bytes = 0; bytes < text.size(); ++bytes) {
    std::span<const uint8_t> part = BytesOf(text).first(bytes);
    EXPECT_TRUE(absl::IsInvalidArgument(TakeInputLog(part).status())) << bytes;
  }
  for (size_t at = 0; at < text.size(); ++at) {
    for (const uint8_t bits : {0x01, 0x80, 0xff}) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ bits);
      std::span<const uint8_t> bytes = BytesOf(damaged);
      const auto parsed = TakeInputLog(bytes);
      // Header and lengths of segments: what it begins with says what it is.
      if (at < 12) {
        EXPECT_FALSE(parsed.ok()) << at;
      }
    }
  }
}

}  // namespace
}  // namespace urnic
