#include "datapath/engine/roce_path.h"

#include <gtest/gtest.h>

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

TEST(PeerIcrcPrefixCache, AnotherHeaderForgetsAllLengths) {
  PeerIcrcPrefixCache cache;
  uint32_t next = 100;
  const auto get = [&](uint64_t rest, uint16_t length) {
    return cache.Get(rest, length, [&] { return next++; });
  };
  EXPECT_EQ(get(1, 20), 100u);
  EXPECT_EQ(get(1, 24), 101u);
  EXPECT_EQ(get(1, 20), 100u);
  EXPECT_EQ(get(2, 20), 102u);
  EXPECT_EQ(get(2, 24), 103u);
  EXPECT_EQ(get(1, 24), 104u);
}

}  // namespace
}  // namespace urnic
