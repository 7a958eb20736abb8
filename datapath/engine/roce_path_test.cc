#include "datapath/engine/roce_path.h"

#include <gtest/gtest.h>

namespace urnic {
namespace {

TEST(IcrcPrefixCache, AnAcknowledgementAndAShortSendHaveAnEntryEach) {
  constexpr uint64_t kAcknowledgement = 20;
  constexpr uint64_t kSendOfEight = 24;
  IcrcPrefixCache<uint64_t> cache;
  int computed = 0;
  for (int i = 0; i < 10; ++i) {
    for (const uint64_t bytes : {kAcknowledgement, kSendOfEight}) {
      const uint32_t state = cache.Get(bytes, [&] {
        ++computed;
        return static_cast<uint32_t>(100 + bytes);
      });
      EXPECT_EQ(state, 100 + bytes);
    }
  }
  EXPECT_EQ(computed, 2);
}

}  // namespace
}  // namespace urnic
