// Random work of both ends, each seed twice: once as it is, and once with ends
// that move at any moment to other objects with another clock. Both runs must
// send the same segments at the same times, and complete the same requests in
// the same order.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "transport/iwarp/qp/random_link.h"
#include "transport/iwarp/rdmap/player.h"

namespace urnic::iwarp {
namespace {

using rdmap::testing::Player;

// What is seen of a run.
struct Seen {
  std::vector<std::string> segments;
  std::vector<uint64_t> completions[2];
  std::vector<Event> events[2];
  uint64_t moves = 0;
  // Moves in these states.
  uint64_t in_set_up = 0;
  uint64_t with_custody = 0;
  uint64_t with_copies = 0;
  uint64_t with_early = 0;   // FPDUs
  uint64_t with_narrow = 0;  // paths
  uint64_t in_error = 0;
};

std::string Line(Time now, const Packet& packet) {
  const wire::TcpFields& f = packet.fields;
  std::string line =
      std::to_string(now.ns()) + ' ' + std::to_string(f.src_port) + ' ' +
      std::to_string(f.seq.value()) + ' ' + std::to_string(f.ack.value()) +
      ' ' + std::to_string(f.flags) + ' ' + std::to_string(f.window);
  if (f.options.timestamps) {
    line += " ts " + std::to_string(f.options.timestamps->value) + ' ' +
            std::to_string(f.options.timestamps->echo);
  }
  for (const wire::SackBlock& block : f.options.sacks()) {
    line += " sack " + std::to_string(block.begin.value()) + ' ' +
            std::to_string(block.end.value());
  }
  return line + " bytes " + std::to_string(packet.payload.size()) + ' ' +
         std::to_string(ImageCrc(packet.payload));
}

class Conversation {
 public:
  // `every`: an end moves after every so many things that it does; 0: never.
  Conversation(uint64_t seed, uint64_t every)
      : link_(std::make_unique<Link>(seed)), mover_(seed), every_(every) {
    ChooseSetUp(*link_);
    link_->tamper_to_b = [this](Packet& p) { return Passes(link_->a, p); };
    link_->tamper_to_a = [this](Packet& p) { return Passes(link_->b, p); };
    link_->between = [this](TestEnd& end) { MaybeMove(end); };
  }

  Seen Play(bool to_a_bad_end) {
    Player a(link_->a.program, link_->b.program, link_->random);
    Player b(link_->b.program, link_->a.program, link_->random);
    a.overlapping_writes = !link_->b.place_early;
    b.overlapping_writes = !link_->a.place_early;
    a.PostReceives();
    b.PostReceives();
    EXPECT_TRUE(link_->Connect());
    constexpr int kRounds = 100;
    for (int round = 0; round < 20 * kRounds; ++round) {
      if (round > kRounds && a.Idle() && b.Idle()) break;
      a.PostReceives();
      b.PostReceives();
      const bool first = link_->random.OneIn(2);
      if (round < kRounds && (first ? a : b).CanPost()) {
        (first ? a : b).Post(first ? b : a);
        (first ? link_->a : link_->b).posted = true;
      }
      for (uint64_t n = link_->random.Below(4); n != 0; --n) {
        (void)link_->Step(link_->now + Duration::Seconds(100));
      }
      a.Check();
      b.Check();
      path_.Change();
      if (::testing::Test::HasFailure()) return seen_;
      if (to_a_bad_end && round == kRounds / 2) {
        PostBadWrite();
        break;
      }
    }
    link_->Run();
    TestEnd& closer = link_->random.OneIn(2) ? link_->a : link_->b;
    closer.endpoint->Disconnect(closer.Local(link_->now));
    link_->Run();
    EXPECT_TRUE(link_->a.clean() && link_->b.clean());
    const TestEnd* ends[] = {&link_->a, &link_->b};
    for (int i = 0; i < 2; ++i) {
      seen_.completions[i] = ends[i]->program.order;
      seen_.events[i] = ends[i]->events;
    }
    return seen_;
  }

 private:
  bool Passes(TestEnd& from, const Packet& packet) {
    seen_.segments.push_back(Line(link_->now, packet));
    return path_.Passes(from, packet);
  }
  // The peer answers with a Terminate.
  void PostBadWrite() {
    TestEnd& end = link_->a;
    (void)end.Post({.opcode = URNIC_WR_RDMA_WRITE,
                    .wr_id = 1'000'000,
                    .sges = {end.program.Sge(0, 3000)},
                    .remote_addr = 8,
                    .rkey = 0x77});
  }
  void MaybeMove(TestEnd& end) {
    if (every_ == 0 || !end.begun() || !mover_.OneIn(every_)) return;
    ++seen_.moves;
    seen_.in_set_up += !end.has(Event::kConnected);
    seen_.with_custody += end.frames.kept() != 0;
    seen_.with_copies += end.fpdus.kept() != 0;
    seen_.with_early += end.early.free_count() != TestEnd::kEarly;
    const uint32_t mtu = end.endpoint->path_mtu();
    seen_.with_narrow += mtu != 0 && mtu < end.tcp_config.offer.mss;
    seen_.in_error += end.program.qp().state() == QpState::kErr;
    // Timestamps have milliseconds: these are where they were.
    const auto ahead = Duration::Milliseconds(
        static_cast<int64_t>(mover_.Below(uint64_t{1} << 30)));
    const Bytes image = end.Image(link_->now);
    const ImageRefusal refusal = end.Become(image, link_->now, ahead);
    ASSERT_TRUE(refusal.ok()) << refusal.Text();
    ASSERT_EQ(end.Image(link_->now), image);
    end.program.qp().CheckInvariants();
  }

  std::unique_ptr<Link> link_;
  Path path_{*link_};
  Random mover_;
  const uint64_t every_;
  Seen seen_;
};

//= RFC 2018 8
TEST(ImageRandomTest, AConnectionGoesOnAsIfItHadNotMoved) {
  Seen all;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE(seed);
    const bool bad = seed % 4 == 0;
    const Seen still = Conversation(seed, 0).Play(bad);
    const Seen moved = Conversation(seed, 1 + seed % 5).Play(bad);
    ASSERT_FALSE(HasFailure());
    for (size_t i = 0; i < still.segments.size(); ++i) {
      ASSERT_LT(i, moved.segments.size());
      ASSERT_EQ(moved.segments[i], still.segments[i]) << "segment " << i;
    }
    ASSERT_EQ(moved.segments.size(), still.segments.size());
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(moved.completions[i], still.completions[i]);
      ASSERT_EQ(moved.events[i], still.events[i]);
    }
    all.moves += moved.moves;
    all.in_set_up += moved.in_set_up;
    all.with_custody += moved.with_custody;
    all.with_copies += moved.with_copies;
    all.with_early += moved.with_early;
    all.with_narrow += moved.with_narrow;
    all.in_error += moved.in_error;
  }
  EXPECT_GT(all.moves, 10000u);
  EXPECT_GT(all.in_set_up, 100u);
  EXPECT_GT(all.with_custody, 1000u);
  EXPECT_GT(all.with_copies, 1000u);
  EXPECT_GT(all.with_early, 100u);
  EXPECT_GT(all.with_narrow, 1000u);
  EXPECT_GT(all.in_error, 100u);
}

}  // namespace
}  // namespace urnic::iwarp
