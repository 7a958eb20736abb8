// Random histories of a connection, and flows that share a path.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "transport/base/random.h"
#include "transport/cc/image_fields.h"
#include "transport/cc/tcp_congestion.h"

namespace urnic::cc {
namespace {

constexpr uint32_t kMss = 1460;

void ExpectSound(const TcpCongestion& cc) {
  ASSERT_GE(cc.cwnd, kOnePacket);
  ASSERT_LE(cc.cwnd, cc.limit);
  ASSERT_GE(cc.window(), 1u);
  ASSERT_GE(cc.ssthresh(), 1u);
  // A packet leaves within a round trip.
  const uint64_t ns = (cc.mss * cc.pacer.cost) >> Pacer::kFraction;
  ASSERT_LE(ns, static_cast<uint64_t>(TcpCongestion::kRoundTripMax.ns()));
}

// An input of any kind, with any values.
void Step(Random& random, TcpCongestion& cc, Time& now) {
  const auto any32 = [&] {
    return static_cast<uint32_t>(random.Next() >> random.Below(64));
  };
  if (random.OneIn(3)) {
    now = now + Duration::Nanoseconds(static_cast<int64_t>(
                    random.Next() >> (20 + random.Below(40))));
  }
  switch (random.Below(24)) {
    case 0:
      return cc.OnLoss(now, any32());
    case 1:
      return cc.OnRto(now, any32());
    case 2:
      return cc.OnUndo();
    case 3:
      return cc.OnCnp(now);
    case 4:
      return cc.SetWindow(any32());
    case 5:
      return cc.OnRestart(now);
    case 6:
      if (random.OneIn(4)) cc.SetMss(1 + (any32() & 0x3fff));
      return;
    case 7:
    case 8:
      return cc.OnRecovered(now, any32());
    default:
      break;
  }
  AckSample sample;
  sample.now = now;
  sample.round_trip = Duration::Nanoseconds(static_cast<int64_t>(
      random.OneIn(4) ? 0 : random.Next() >> (4 + random.Below(58))));
  sample.bytes = any32();
  sample.packets = sample.bytes / cc.mss + 1;
  sample.marked = random.OneIn(50);
  sample.marked_bytes = any32();
  sample.ends_round = random.OneIn(5);
  sample.app_limited = random.OneIn(6);
  cc.OnAck(sample);
}

TEST(TcpRandomTest, NoHistoryBreaksTheWindow) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Time now = Time::FromNs(1'000'000'000);
    TcpCongestion cc;
    const TcpCongestionConfig config = {
        .algorithm = static_cast<TcpAlgorithm>(random.Below(2)),
        .mss = 1 + static_cast<uint32_t>(random.Below(16000)),
        .window_max =
            1 +
            static_cast<uint32_t>(random.Next() >> (32 + random.Below(32))) / 2,
        .handshake_resent = random.OneIn(2)};
    cc.Start(config, now);
    for (int i = 0; i < 2000; ++i) {
      Step(random, cc, now);
      ASSERT_NO_FATAL_FAILURE(ExpectSound(cc));
    }
  }
}

std::vector<uint8_t> Image(const TcpCongestion& cc, Time now) {
  std::vector<uint8_t> bytes(4096);
  ImageWriter writer(ImageKind::kRc, now, bytes);
  writer.Element("cc", cc);
  bytes.resize(writer.Finish());
  return bytes;
}

TEST(TcpRandomTest, AnImageGoesOnAsTheOriginal) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Time now = Time::FromNs(1'000'000'000'000'000'000);
    TcpCongestion cc;
    cc.Start({.algorithm = static_cast<TcpAlgorithm>(seed % 2), .mss = kMss},
             now);
    for (uint64_t i = random.Below(500); i != 0; --i) Step(random, cc, now);
    const std::vector<uint8_t> image = Image(cc, now);
    // Another machine has another clock.
    const Duration ahead = Duration::Seconds(5000);
    Time there = now + ahead;
    TcpCongestion copy;
    ImageReader reader(image, there);
    reader.Element("cc", copy);
    reader.Finish();
    ASSERT_TRUE(reader.ok()) << reader.refusal().Text();
    Random same = random;
    for (int i = 0; i < 500; ++i) {
      Step(random, cc, now);
      Step(same, copy, there);
      ASSERT_EQ(copy.cwnd, cc.cwnd) << i;
      ASSERT_EQ(copy.threshold, cc.threshold);
    }
  }
}

TEST(TcpRandomTest, ADamagedImageIsRefusedOrSound) {
  Random random(5);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    Time now = Time::FromNs(1'000'000'000'000'000'000);
    TcpCongestion cc;
    cc.Start({.algorithm = static_cast<TcpAlgorithm>(i % 2), .mss = kMss}, now);
    for (int k = 0; k < 30; ++k) Step(random, cc, now);
    std::vector<uint8_t> image = Image(cc, now);
    const size_t end = image.size() - kImageTrailerBytes;
    image[kImageHeaderBytes + random.Below(end - kImageHeaderBytes)] ^=
        static_cast<uint8_t>(1 + random.Below(255));
    const uint32_t crc = ImageCrc(std::span(image).first(end));
    for (size_t k = 0; k < 4; ++k) {
      image[end + k] = static_cast<uint8_t>(crc >> (8 * k));
    }
    TcpCongestion copy;
    ImageReader reader(image, now);
    reader.Element("cc", copy);
    if (!reader.ok()) {
      ++refused;
      continue;
    }
    for (int k = 0; k < 100; ++k) {
      Step(random, copy, now);
      ASSERT_NO_FATAL_FAILURE(ExpectSound(copy));
    }
  }
  EXPECT_GT(refused, 300);
}

// Reno, in packets: a packet in a round trip, half after a loss.
struct Reno {
  double cwnd = 10;
  void Round() { cwnd += 1; }
  void Lose() { cwnd = std::max(2.0, cwnd / 2); }
};

class OurFlow {
 public:
  OurFlow(TcpAlgorithm algorithm, Duration round_trip)
      : round_trip_(round_trip) {
    cc_.Start({.algorithm = algorithm, .mss = kMss}, now_);
  }
  // A round trip in which the window is acknowledged.
  void Round() {
    const uint32_t packets = cc_.window();
    for (uint32_t i = 1; i <= packets; ++i) {
      now_ = now_ + Duration::Nanoseconds(round_trip_.ns() / packets);
      AckSample sample;
      sample.now = now_;
      sample.round_trip = round_trip_;
      sample.packets = 1;
      sample.bytes = kMss;
      sample.ends_round = i == packets;
      cc_.OnAck(sample);
    }
  }
  void Lose() {
    cc_.OnLoss(now_, cc_.window());
    now_ = now_ + round_trip_;
    cc_.OnRecovered(now_, 1);
  }
  double window() const { return cc_.window(); }

 private:
  Time now_ = Time::FromNs(1'000'000'000);
  Duration round_trip_;
  TcpCongestion cc_;
};

// The average window of a flow that loses a packet of each `packets`.
template <typename Flow, typename Window>
double Average(Flow& flow, Window window, double packets) {
  double sum = 0, sent = 0;
  int rounds = 0;
  flow.Lose();
  while (rounds < 4000) {
    sent += window(flow);
    flow.Round();
    if (sent >= packets) {
      sent = 0;
      flow.Lose();
    }
    if (++rounds > 1000) sum += window(flow);
  }
  return sum / 3000;
}

//= RFC 9438 4.3
TEST(TcpShareTest, AtShortRoundTripsTheAverageWindowIsThatOfReno) {
  for (const double packets : {300.0, 1000.0, 10000.0}) {
    OurFlow ours(TcpAlgorithm::kCubic, Duration::Microseconds(200));
    Reno reno;
    const double mine = Average(
        ours, [](const OurFlow& f) { return f.window(); }, packets);
    const double theirs = Average(
        reno, [](const Reno& f) { return f.cwnd; }, packets);
    EXPECT_GT(mine, 0.85 * theirs) << packets;
    EXPECT_LT(mine, 1.3 * theirs) << packets;
  }
}

//= RFC 9438 4.2
TEST(TcpShareTest, AtLongRoundTripsItIsLargerThanThatOfReno) {
  OurFlow ours(TcpAlgorithm::kCubic, Duration::Milliseconds(200));
  Reno reno;
  const double mine = Average(
      ours, [](const OurFlow& f) { return f.window(); }, 1e5);
  const double theirs = Average(
      reno, [](const Reno& f) { return f.cwnd; }, 1e5);
  EXPECT_GT(mine, 1.5 * theirs);
}

TEST(TcpShareTest, TwoFlowsOfAPathConvergeToEqualWindows) {
  for (const TcpAlgorithm algorithm :
       {TcpAlgorithm::kCubic, TcpAlgorithm::kDctcp}) {
    const Duration round_trip = Duration::Milliseconds(10);
    OurFlow first(algorithm, round_trip), second(algorithm, round_trip);
    constexpr double kPath = 400;  // packets, with its queue
    double mine = 0, theirs = 0;
    for (int round = 0; round < 20000; ++round) {
      first.Round();
      if (round > 500) second.Round();  // the first has had all until then
      if (first.window() + second.window() > kPath) {  // both lose a packet
        first.Lose();
        second.Lose();
      }
      if (round > 10000) {
        mine += first.window();
        theirs += second.window();
      }
    }
    EXPECT_GT(mine / theirs, 0.8);
    EXPECT_LT(mine / theirs, 1.25);
  }
}

}  // namespace
}  // namespace urnic::cc
