#include "datapath/engine/roce_path.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace urnic {
namespace {

TEST(IcrcPrefixCache, AnAcknowledgementAndAShortSendHaveAnEntryEach) {
  constexpr uint16_t kAcknowledgement = 20;
  constexpr uint16_t kSendOfEight = 24;
  IcrcPrefixCache cache;
  int computed = 0;
  for (int i = 0; i < 10; ++i) {
    for (const uint16_t bytes : {kAcknowledgement, kSendOfEight}) {
      const uint32_t state = cache.Get(bytes, [&] {
        ++computed;
        return 100u + bytes;
      });
      EXPECT_EQ(state, 100u + bytes);
    }
  }
  EXPECT_EQ(computed, 2);
}

// IPv4 and UDP headers; only what the cache reads is set.
std::array<uint8_t, 28> Headers(uint8_t identification, uint8_t length) {
  std::array<uint8_t, 28> headers = {0x45, 0, 0, length, 0, identification};
  return headers;
}

TEST(PeerHeaderCache, KeepsAnAcknowledgementAndAMessage) {
  PeerHeaderCache cache;
  const auto ack = Headers(0, 48);
  const auto send = Headers(0, 52);
  EXPECT_EQ(cache.Find(ack.data()), nullptr);
  cache.Keep(ack.data(), 7);
  EXPECT_EQ(cache.Find(send.data()), nullptr);
  cache.Keep(send.data(), 8);
  for (int i = 0; i < 2; ++i) {
    ASSERT_NE(cache.Find(ack.data()), nullptr);
    ASSERT_NE(cache.Find(send.data()), nullptr);
    EXPECT_EQ(*cache.Find(ack.data()), 7u);
    EXPECT_EQ(*cache.Find(send.data()), 8u);
  }
}

TEST(PeerHeaderCache, AnotherHeaderClearsAllLengths) {
  PeerHeaderCache cache;
  cache.Keep(Headers(0, 48).data(), 7);
  cache.Keep(Headers(0, 52).data(), 8);
  cache.Keep(Headers(1, 52).data(), 9);
  ASSERT_NE(cache.Find(Headers(1, 52).data()), nullptr);
  EXPECT_EQ(*cache.Find(Headers(1, 52).data()), 9u);
  EXPECT_EQ(cache.Find(Headers(0, 48).data()), nullptr);
  EXPECT_EQ(cache.Find(Headers(1, 48).data()), nullptr);
  EXPECT_EQ(cache.Find(Headers(0, 52).data()), nullptr);
}

}  // namespace
}  // namespace urnic
