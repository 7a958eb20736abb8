// Random work of both ends over a bad wire, against the model of rdmap's
// player: every byte, once, in order. The fixture checks that no byte of the
// stream ever changes.

#include <memory>

#include "transport/iwarp/qp/endpoint_fixture.h"
#include "transport/iwarp/rdmap/player.h"
#include "transport/wire/ipv4.h"

namespace urnic::iwarp {
namespace {

using rdmap::testing::Player;

void Choose(TestEnd& end, Random& random) {
  end.setup.crc = random.OneIn(2);
  end.setup.markers = random.OneIn(2);
  end.tcp_config.offer.mss = static_cast<uint16_t>(
      random.OneIn(3) ? 300 + random.Below(400) : 1400 + random.Below(7000));
  end.tcp_config.offer.sack = !random.OneIn(4);
  end.tcp_config.offer.timestamps = !random.OneIn(4);
  end.tcp_config.window_bytes = static_cast<uint32_t>(
      random.OneIn(3) ? 2000 + random.Below(8000) : 256 * 1024);
  end.fpdus.SetFree(static_cast<uint32_t>(1 + random.Below(20)));
  end.config.keep_bytes = random.OneIn(3) ? 0 : 64;
  end.place_early = !random.OneIn(4);
  end.Renew();
}

void ChooseSetUp(Link& link) {
  Random& random = link.random;
  for (TestEnd* end : {&link.a, &link.b}) Choose(*end, random);
  if (random.OneIn(3)) {
    link.a.setup.revision = 1;
  } else if (random.OneIn(2)) {
    link.a.setup.peer_to_peer = true;
    link.a.setup.rtr_kinds = static_cast<mpa::RtrKinds>(1 << random.Below(3));
  }
  link.faults.loss_percent = static_cast<uint32_t>(random.Below(4));
  link.faults.duplicate_percent = static_cast<uint32_t>(random.Below(4));
  link.faults.reorder_percent = static_cast<uint32_t>(random.Below(51));
}

// What has happened in all rounds.
struct Seen {
  uint64_t placed_early = 0;
  uint64_t kept = 0;
};

// What the path carries. It changes from time to time, and routers may not say
// so.
struct Path {
  explicit Path(Link& l) : link(l) {
    link.tamper_to_b = [this](Packet& p) { return Passes(link.a, p); };
    link.tamper_to_a = [this](Packet& p) { return Passes(link.b, p); };
  }
  bool Passes(TestEnd& from, const Packet& packet) {
    const size_t bytes = sizeof(wire::Ipv4) +
                         wire::TcpHeaderBytes(packet.fields.options) +
                         packet.payload.size();
    if (bytes <= mtu) return true;
    if (reports) from.endpoint->OnTooBig(mtu, packet.fields.seq, link.now);
    return false;
  }
  void Change() {
    if (!link.random.OneIn(50)) return;
    mtu = static_cast<uint32_t>(600 + link.random.Below(8000));
    reports = link.random.OneIn(2);
  }

  Link& link;
  uint32_t mtu = 9000;
  bool reports = false;
};

void Play(uint64_t seed, Seen& seen) {
  const auto owner = std::make_unique<Link>(seed);
  Link& link = *owner;
  ChooseSetUp(link);
  Path path(link);
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
