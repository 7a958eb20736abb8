// The sender and a model of a receiver, on a link that loses, repeats and
// reorders, in virtual time.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "tests/support/random.h"
#include "transport/cc/tcp_congestion.h"
#include "transport/iwarp/tcp/sender_fixture.h"

namespace urnic::tcp {
namespace {

using testing::Random;

struct Wire {
  uint32_t lost_in_1000 = 0;
  uint32_t repeated_in_1000 = 0;
  Duration delay = Us(100);
  Duration jitter = {};
};

// Receives what is sent: the stream must be what the chunks say, each byte.
class ModelReceiver {
 public:
  explicit ModelReceiver(SeqNum first) : first_(first) {}

  void OnSegment(const SegmentToSend& segment, uint32_t timestamp,
                 const TestUpper& upper) {
    dsack_.reset();
    if (segment.bytes == 0 && !segment.fin) return;  // a probe
    const auto begin = static_cast<uint32_t>(segment.seq - first_);
    const uint32_t end = begin + segment.bytes + segment.fin;
    if (segment.bytes != 0) {
      ASSERT_LT(segment.source, upper.starts.size());
      ASSERT_EQ(upper.starts[segment.source] + segment.offset, begin);
      ASSERT_TRUE(MayBeginSegment(segment.offset)) << segment.offset;
    } else {
      ASSERT_EQ(begin, upper.position);
    }
    if (segment.fin) fin_at_ = end;
    if (end > next_ + window_) return;
    if (begin <= next_) echo_ = timestamp;
    if (!Add(begin, end)) dsack_ = {first_ + begin, first_ + end};
  }
  // False: it has all of it.
  bool Add(uint32_t begin, uint32_t end) {
    if (end <= next_) return false;
    for (const auto& [b, e] : ranges_) {
      if (b <= begin && end <= e) return false;
    }
    begin = std::max(begin, next_);
    for (auto it = ranges_.begin(); it != ranges_.end();) {
      if (it->second < begin || it->first > end) {
        ++it;
        continue;
      }
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      it = ranges_.erase(it);
    }
    if (begin == next_) {
      next_ = end;
    } else {
      ranges_[begin] = end;
      latest_ = begin;
    }
    return true;
  }
  // Forgets what it has SACKed.
  void Renege() { ranges_.clear(); }

  wire::TcpSegment Answer(bool sack, bool timestamps) const {
    wire::TcpSegment answer = {};
    answer.seq = SeqNum(7000);
    answer.ack = first_ + next_;
    answer.flags = wire::kTcpAck;
    if (timestamps) answer.options.timestamps = {.value = 1, .echo = echo_};
    if (!sack) return answer;
    const auto add = [&](SeqNum begin, SeqNum end) {
      if (answer.options.sack_count == 3) return;
      answer.options.sack[answer.options.sack_count++] = {begin, end};
    };
    if (dsack_.has_value()) add(dsack_->begin, dsack_->end);
    const auto latest = ranges_.find(latest_);
    if (latest != ranges_.end()) {
      add(first_ + latest->first, first_ + latest->second);
    }
    for (const auto& [begin, end] : ranges_) {
      if (begin != latest_) add(first_ + begin, first_ + end);
    }
    return answer;
  }
  uint32_t next() const { return next_; }
  bool finished() const { return fin_at_.has_value() && next_ == *fin_at_; }
  void SetWindow(uint32_t window) { window_ = window; }
  uint32_t window() const { return window_; }

 private:
  const SeqNum first_;
  uint32_t next_ = 0;
  uint32_t window_ = 1 << 16;
  std::map<uint32_t, uint32_t> ranges_;
  uint32_t latest_ = 0;
  uint32_t echo_ = 0;
  std::optional<wire::SackBlock> dsack_;
  std::optional<uint32_t> fin_at_;
};

void StartWindow(TestWindow& window, uint32_t, Time) { window.packets = 20; }
void StartWindow(cc::TcpCongestion& cubic, uint32_t mss, Time now) {
  cubic.Start({.mss = mss}, now);
}

template <typename Cc>
class TransferWith {
 public:
  TransferWith(uint64_t seed, const Wire& wire, SenderConfig config)
      : random_(seed), wire_(wire), receiver_(kFirst) {
    sack_ = config.sack;
    timestamps_ = config.timestamps;
    config.clock.offset = static_cast<uint32_t>(random_.Next());
    clock_ = config.clock;
    sender_.Start(config, &slab_, kFirst, SeqNum(7000), receiver_.window());
    StartWindow(sender_.cc, config.mss, now_);
  }

  // Sends chunks until the FIN is acknowledged.
  void Go(uint32_t chunks) {
    for (uint32_t i = 0; i < chunks; ++i) {
      upper_.Add(1, 1 + static_cast<uint32_t>(random_.Below(1300)));
    }
    sender_.Finish();
    for (int step = 0; step < 400000; ++step) {
      Transmit();
      if (::testing::Test::HasFatalFailure()) return;
      if (sender_.fin_acked()) break;
      ASSERT_TRUE(Advance()) << "nothing will ever happen";
    }
    ASSERT_TRUE(sender_.fin_acked());
    ASSERT_TRUE(receiver_.finished());
    EXPECT_EQ(receiver_.next(), upper_.position + 1);
    EXPECT_EQ(upper_.acked, upper_.starts.size());
    EXPECT_TRUE(sender_.idle());
    EXPECT_TRUE(sender_.deadline().IsInfinite());
    EXPECT_EQ(sender_.pipe(), 0u);
    EXPECT_EQ(slab_.free_blocks(), kBlocks);
    EXPECT_EQ(sender_.counters().bad_sacks, 0u);
    EXPECT_EQ(sender_.counters().unsent_acks, 0u);
  }

  // What happens from time to time.
  bool shrink_mss = false;
  bool probe_mtu = false;  // too large for the link
  bool close_window = false;
  bool renege = false;

  uint32_t fates_seen = 0;

  const Sender<Cc>& sender() const { return sender_; }
  uint64_t bytes() const { return upper_.position; }
  Duration time() const { return now_ - Time::FromNs(kStart); }

 private:
  static constexpr int64_t kStart = 5'000'000'000;
  static constexpr uint32_t kBlocks = 8;
  static constexpr SeqNum kFirst{0xffff0000};

  struct Event {
    std::optional<SegmentToSend> segment = std::nullopt;
    uint32_t timestamp = 0;
    wire::TcpSegment answer = {};
    uint32_t window = 0;
  };

  void Put(const Event& event) {
    if (event.segment.has_value() && event.segment->bytes > 1100) return;
    if (random_.Below(1000) < wire_.lost_in_1000) return;
    const bool twice = random_.Below(1000) < wire_.repeated_in_1000;
    for (int i = 0; i < 1 + twice; ++i) {
      Duration delay = wire_.delay;
      if (wire_.jitter.ns() != 0) {
        delay = delay + Duration::Nanoseconds(static_cast<int64_t>(
                            random_.Below(wire_.jitter.ns())));
      }
      events_.emplace(now_ + delay, event);
    }
  }

  void Transmit() {
    std::vector<SegmentToSend> out(1 + random_.Below(8));
    while (true) {
      const uint32_t n = sender_.Transmit(now_, out, upper_);
      for (uint32_t i = 0; i < n; ++i) {
        ASSERT_TRUE(out[i].bytes <= sender_.mss() || !out[i].is_retransmission);
        Put({.segment = out[i], .timestamp = clock_.At(now_)});
      }
      Check();
      if (n < out.size()) return;
    }
  }

  bool Advance() {
    const Time timer = sender_.deadline();
    const bool has_event = !events_.empty();
    if (!has_event && timer.IsInfinite()) return false;
    if (has_event && events_.begin()->first <= timer) {
      now_ = std::max(now_, events_.begin()->first);
      const Event event = events_.begin()->second;
      events_.erase(events_.begin());
      Deliver(event);
    } else {
      now_ = std::max(now_, timer);
      sender_.OnTimer(now_);
    }
    Check();
    Disturb();
    return true;
  }

  void Deliver(const Event& event) {
    if (event.segment.has_value()) {
      receiver_.OnSegment(*event.segment, event.timestamp, upper_);
      Answer();
      return;
    }
    (void)sender_.OnAck(event.answer, event.window, now_, upper_);
  }
  void Answer() {
    Put({.answer = receiver_.Answer(sack_, timestamps_),
         .window = receiver_.window()});
  }

  void Disturb() {
    if (shrink_mss && random_.OneIn(500)) {
      sender_.OnMss(std::max(sender_.mss() * 3 / 4, 200u));
    }
    if (probe_mtu && !sender_.mtu_probe_under_way() && random_.OneIn(50)) {
      fates_seen |= 1u << static_cast<int>(sender_.TakeMtuProbeFate());
      sender_.ProbeMtu(1200);
    }
    if (close_window && random_.OneIn(100)) {
      // The peer's answers of a moment ago may be lost: it repeats itself when
      // it is probed.
      receiver_.SetWindow(random_.OneIn(2) ? 0 : random_.Below(1 << 16));
      Answer();
    } else if (receiver_.window() < 1 << 16 && random_.OneIn(10)) {
      receiver_.SetWindow(1 << 16);
      Answer();
    }
    if (renege && random_.OneIn(200)) receiver_.Renege();
  }

  void Check() {
    CheckRecords(sender_.scoreboard(), sender_.una(), sender_.nxt());
  }

  Random random_;
  const Wire wire_;
  SegmentSlab slab_{kBlocks};
  ModelReceiver receiver_;
  TestUpper upper_;
  Sender<Cc> sender_;
  TimestampClock clock_;
  bool sack_ = true;
  bool timestamps_ = true;
  Time now_ = Time::FromNs(kStart);
  std::multimap<Time, Event> events_;
};

using Transfer = TransferWith<TestWindow>;

constexpr SenderConfig kConfig{.mss = 1000, .max_order = 2};
constexpr int kSeeds = 40;

void ForSeeds(const Wire& wire, SenderConfig config, auto&& change) {
  for (int seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Transfer run(static_cast<uint64_t>(seed), wire, config);
    change(run);
    run.Go(300);
    if (::testing::Test::HasFailure()) return;
  }
}
void Nothing(Transfer&) {}

TEST(SenderRandomTest, NothingIsResentOnAPerfectLink) {
  Transfer run(1, Wire{}, kConfig);
  run.Go(2000);
  EXPECT_EQ(run.sender().counters().retransmissions, 0u);
  EXPECT_EQ(run.sender().counters().timeouts, 0u);
}

TEST(SenderRandomTest, EachByteArrivesInSpiteOfLosses) {
  ForSeeds({.lost_in_1000 = 20}, kConfig, Nothing);
  ForSeeds({.lost_in_1000 = 200}, kConfig, Nothing);
}

TEST(SenderRandomTest, EachByteArrivesInSpiteOfReorderingAndRepetition) {
  ForSeeds({.repeated_in_1000 = 50, .jitter = Us(300)}, kConfig, Nothing);
  ForSeeds({.lost_in_1000 = 50, .repeated_in_1000 = 50, .jitter = Us(300)},
           kConfig, Nothing);
}

TEST(SenderRandomTest, EachByteArrivesWithoutSackAndTimestamps) {
  SenderConfig config = kConfig;
  config.timestamps = false;
  ForSeeds({.lost_in_1000 = 50, .jitter = Us(50)}, config, Nothing);
  config.sack = false;
  ForSeeds({.lost_in_1000 = 50, .jitter = Us(50)}, config, Nothing);
}

TEST(SenderRandomTest, EachByteArrivesThroughAPathThatShrinks) {
  ForSeeds({.lost_in_1000 = 50, .jitter = Us(50)}, kConfig,
           [](Transfer& run) { run.shrink_mss = true; });
}

TEST(SenderRandomTest, EachByteArrivesAlsoOfLostProbesOfThePath) {
  uint32_t fates = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Transfer run(seed, {.lost_in_1000 = 20}, kConfig);
    run.probe_mtu = true;
    run.Go(300);
    fates |= run.fates_seen;
  }
  EXPECT_TRUE(fates & 1u << static_cast<int>(MtuProbeFate::kLost));
  EXPECT_TRUE(fates & 1u << static_cast<int>(MtuProbeFate::kUnclear));
}

TEST(SenderRandomTest, EachByteArrivesThroughWindowsThatClose) {
  ForSeeds({.lost_in_1000 = 20, .jitter = Us(50)}, kConfig,
           [](Transfer& run) { run.close_window = true; });
}

TEST(SenderRandomTest, EachByteArrivesAtAPeerThatForgets) {
  ForSeeds({.lost_in_1000 = 20}, kConfig,
           [](Transfer& run) { run.renege = true; });
}

// Losses of a hundredth must not lead to time-outs: RACK and the tail loss
// probe repair them within round trips.
TEST(SenderRandomTest, RareLossesAreRepairedWithoutTimeouts) {
  uint64_t timeouts = 0;
  uint64_t resent = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Transfer run(seed, {.lost_in_1000 = 10}, kConfig);
    run.Go(1000);
    timeouts += run.sender().counters().timeouts;
    resent += run.sender().counters().retransmissions;
  }
  EXPECT_LE(timeouts, 3u);
  EXPECT_LE(resent, 200u);
  EXPECT_GE(resent, 50u);
}

TEST(SenderRandomTest, CubicMovesEachByteAndPacesIt) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    TransferWith<cc::TcpCongestion> run(
        seed, {.lost_in_1000 = 10, .delay = Us(500), .jitter = Us(100)},
        kConfig);
    run.Go(1000);
    if (::testing::Test::HasFailure()) return;
  }
}

// The window of the model's receiver is 64 KB: slow start reaches it, and then
// a window leaves in each round trip.
TEST(SenderRandomTest, CubicFillsTheWindowOfThePeer) {
  TransferWith<cc::TcpCongestion> run(1, {.delay = Us(500)}, kConfig);
  run.Go(4000);
  EXPECT_EQ(run.sender().counters().retransmissions, 0u);
  const auto windows = static_cast<int64_t>(run.bytes() >> 16);
  EXPECT_LE(run.time(), Ms(1) * (windows * 5 / 4 + 10));
}

TEST(SenderRandomTest, HostileAcknowledgementsBreakNothing) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    SegmentSlab slab(8);
    TestUpper upper;
    Sender<TestWindow> sender;
    SenderConfig config = kConfig;
    config.sack = !random.OneIn(8);
    config.ecn = true;
    const SeqNum first(0xffffff00);
    sender.Start(config, &slab, first, SeqNum(1), 1 << 15);
    sender.cc.packets = 30;
    Time now = Time::FromNs(1'000'000'000);
    std::vector<SegmentToSend> out(16);
    for (int step = 0; step < 400; ++step) {
      now = now + Us(static_cast<int64_t>(random.Below(2000)));
      if (random.OneIn(3)) upper.Add(1 + random.Below(4), 900);
      (void)sender.Transmit(now, out, upper);
      if (random.OneIn(4)) {
        now = random.OneIn(8) && !sender.deadline().IsInfinite()
                  ? std::max(now, sender.deadline())
                  : now;
        sender.OnTimer(now);
      }
      const uint32_t flight =
          static_cast<uint32_t>(sender.nxt() - sender.una());
      const auto any = [&] {
        return random.OneIn(10)
                   ? SeqNum(static_cast<uint32_t>(random.Next()))
                   : sender.una() +
                         static_cast<uint32_t>(random.Below(flight + 200)) +
                         static_cast<uint32_t>(-100);
      };
      wire::TcpSegment segment;
      segment.seq = SeqNum(static_cast<uint32_t>(random.Below(3)));
      segment.ack = random.OneIn(2) ? sender.una() : any();
      segment.flags = static_cast<uint8_t>(random.Byte() | wire::kTcpAck);
      if (random.OneIn(2)) {
        segment.options.timestamps = {
            .value = 1, .echo = static_cast<uint32_t>(random.Next())};
      }
      segment.options.sack_count = static_cast<uint8_t>(random.Below(5));
      for (auto& block : segment.options.sack) block = {any(), any()};
      (void)sender.OnAck(segment, static_cast<uint32_t>(random.Below(1 << 16)),
                         now, upper);
      CheckRecords(sender.scoreboard(), sender.una(), sender.nxt());
    }
  }
}

}  // namespace
}  // namespace urnic::tcp
