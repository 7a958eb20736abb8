// Random work of both ends against a simple model: every byte, once, in order.

#include <gtest/gtest.h>

#include "transport/iwarp/rdmap/player.h"

namespace urnic::rdmap::testing {
namespace {

void Play(uint64_t seed) {
  Random random(seed);
  const auto options = [&random](uint32_t qpn) {
    EndOptions made;
    made.qpn = qpn;
    made.config.ird = 8;
    made.config.ord = static_cast<uint32_t>(1 + random.Below(8));
    return made;
  };
  const auto owner_a = std::make_unique<RdmapEnd>(options(0x11));
  const auto owner_b = std::make_unique<RdmapEnd>(options(0x22));
  RdmapEnd& a = *owner_a;
  RdmapEnd& b = *owner_b;
  Player player_a(a, b, random);
  Player player_b(b, a, random);
  for (RdmapEnd* end : {&a, &b}) {
    end->SetMulpdu(
        [&random] { return static_cast<uint32_t>(128 + random.Below(5000)); });
  }
  constexpr int kRounds = 1500;
  for (int round = 0; round < 3 * kRounds; ++round) {
    player_a.PostReceives();
    player_b.PostReceives();
    const bool first = random.OneIn(2);
    Player& self = first ? player_a : player_b;
    Player& other = first ? player_b : player_a;
    RdmapEnd& from = first ? a : b;
    RdmapEnd& to = first ? b : a;
    if (round < kRounds && self.CanPost()) self.Post(other);
    from.can_keep = !random.OneIn(5);
    from.keep_small = !random.OneIn(3);
    to.Receive(from.Transmit(random.Below(6)), &random);
    if (random.OneIn(2)) from.Ack(random.Below(8));
    if (random.OneIn(20)) {
      ASSERT_TRUE(from.RebuildAll());
    }
    player_a.Check();
    player_b.Check();
    if (::testing::Test::HasFatalFailure()) return;
  }
  for (RdmapEnd* end : {&a, &b}) end->can_keep = true;
  Exchange(a, b);
  player_a.Check();
  player_b.Check();
  EXPECT_TRUE(player_a.Idle() && player_b.Idle());
  player_a.CheckEnd();
  player_b.CheckEnd();
}

TEST(RandomTest, EveryByteArrivesOnceAndInOrder) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Play(seed);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace urnic::rdmap::testing
