// Random work of both ends over a bad wire, against the model of rdmap's
// player: every byte, once, in order. The fixture checks that no byte of the
// stream ever changes.

#include <memory>

#include "transport/iwarp/qp/random_link.h"
#include "transport/iwarp/rdmap/player.h"

namespace urnic::iwarp {
namespace {

using rdmap::testing::Player;

// What has happened in all rounds.
struct Seen {
  uint64_t placed_early = 0;
  uint64_t kept = 0;
};

void Play(uint64_t seed, Seen& seen) {
  const auto owner = std::make_unique<Link>(seed);
  Link& link = *owner;
  ChooseSetUp(link);
  Path path(link);
  link.tamper_to_b = [&](Packet& p) { return path.Passes(link.a, p); };
  link.tamper_to_a = [&](Packet& p) { return path.Passes(link.b, p); };
  Player a(link.a.program, link.b.program, link.random);
  Player b(link.b.program, link.a.program, link.random);
  a.overlapping_writes = !link.b.place_early;
  b.overlapping_writes = !link.a.place_early;
  a.PostReceives();
  b.PostReceives();
  ASSERT_TRUE(link.Connect());
  constexpr int kRounds = 300;
  for (int round = 0; round < 20 * kRounds; ++round) {
    a.PostReceives();
    b.PostReceives();
    const bool first = link.random.OneIn(2);
    if (round < kRounds && (first ? a : b).CanPost()) {
      (first ? a : b).Post(first ? b : a);
      (first ? link.a : link.b).posted = true;
    }
    for (uint64_t n = link.random.Below(4); n != 0; --n) {
      (void)link.Step(link.now + Duration::Seconds(100));
    }
    a.Check();
    b.Check();
    path.Change();
    if (::testing::Test::HasFailure()) return;
    if (round > kRounds && a.Idle() && b.Idle()) break;
  }
  // Small messages complete before they arrive.
  link.Run();
  a.Check();
  b.Check();
  EXPECT_TRUE(a.Idle() && b.Idle());
  a.CheckEnd();
  b.CheckEnd();
  EXPECT_EQ(link.a.endpoint->failure(), Failure::kNone);
  TestEnd& closer = link.random.OneIn(2) ? link.a : link.b;
  closer.endpoint->Disconnect(link.now);
  link.Run();
  for (TestEnd* end : {&link.a, &link.b}) {
    EXPECT_EQ(end->events.back(), Event::kDisconnected);
    EXPECT_EQ(end->endpoint->failure(), Failure::kNone);
    EXPECT_EQ(end->program.qp().state(), QpState::kErr);
    EXPECT_TRUE(end->clean());
  }
  seen.placed_early += link.verdicts[RxVerdict::kTcpEarly];
  seen.kept += link.verdicts[RxVerdict::kTcpKept];
}

//= RFC 5041 5.3
TEST(RandomTest, EveryByteArrivesOnceAndInOrder) {
  Seen seen;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Play(seed, seen);
    if (HasFailure()) return;
  }
  EXPECT_GT(seen.placed_early, 1000u);
  EXPECT_GT(seen.kept, 1000u);
}

}  // namespace
}  // namespace urnic::iwarp
