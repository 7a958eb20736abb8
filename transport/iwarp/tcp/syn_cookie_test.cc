#include "transport/iwarp/tcp/syn_cookie.h"

#include <gtest/gtest.h>

#include "tests/support/random.h"

namespace urnic::tcp {
namespace {

const FourTuple kTuple = {wire::Gid::FromIpv4(0x0a000001),
                          wire::Gid::FromIpv4(0x0a000002), 4000, 5000};
constexpr SeqNum kIrs(0xfffffffe);

class SynCookieTest : public ::testing::Test {
 protected:
  // The acknowledgement that a true peer sends.
  static wire::TcpSegment AckOf(const SynCookies::Cookie& cookie) {
    wire::TcpSegment ack;
    ack.flags = wire::kTcpAck;
    ack.seq = kIrs + 1;
    ack.ack = cookie.isn + 1;
    if (cookie.agreed.timestamps) {
      ack.options.timestamps = {4711, cookie.timestamp};
    }
    return ack;
  }
  SynCookies::Cookie Make(const Agreed& wanted) {
    return cookies_.Make(kTuple, kIrs, wanted, 1000000, now_);
  }
  static Agreed Everything() {
    return {.mss = 1460,
            .timestamps = true,
            .sack = true,
            .ecn = true,
            .urnic = true,
            .window_shift = 7};
  }

  SynCookies cookies_{NumberKey{{11, 12}}};
  Time now_ = Time::FromNs(1000000000000);
};

//= RFC 4987 3.6, RFC 4987 A
TEST_F(SynCookieTest, EachCombinationOfOptionsSurvives) {
  for (const uint16_t mss : {64, 160, 472, 536, 1220, 1440, 1460, 8960}) {
    for (int bits = 0; bits < 8; ++bits) {
      for (int shift = -1; shift <= 14; ++shift) {
        Agreed wanted = {.mss = mss,
                         .timestamps = true,
                         .sack = (bits & 1) != 0,
                         .ecn = (bits & 2) != 0,
                         .urnic = (bits & 4) != 0,
                         .window_shift = std::nullopt};
        if (shift >= 0) wanted.window_shift = static_cast<uint8_t>(shift);
        const auto cookie = Make(wanted);
        EXPECT_EQ(cookie.agreed, wanted);
        const auto found = cookies_.Check(kTuple, AckOf(cookie), now_);
        ASSERT_TRUE(found.has_value());
        EXPECT_EQ(*found, wanted);
      }
    }
  }
}

TEST_F(SynCookieTest, WithoutTimestampsOnlyTheMssIsAgreed) {
  Agreed wanted = Everything();
  wanted.timestamps = false;
  const auto cookie = Make(wanted);
  EXPECT_EQ(cookie.agreed, (Agreed{.mss = 1460}));
  EXPECT_EQ(*cookies_.Check(kTuple, AckOf(cookie), now_), cookie.agreed);
}

TEST_F(SynCookieTest, TheMssIsNotMoreThanThePeerAllows) {
  testing::Random random(1);
  for (int i = 0; i < 1000; ++i) {
    Agreed wanted = Everything();
    wanted.mss = static_cast<uint16_t>(64 + random.Below(60000));
    EXPECT_LE(Make(wanted).agreed.mss, wanted.mss);
  }
  EXPECT_EQ(Make({.mss = 1459}).agreed.mss, 1440);
  EXPECT_EQ(Make({.mss = 65535}).agreed.mss, 8960);
  EXPECT_EQ(Make({.mss = 0}).agreed.mss, 64);
}

TEST_F(SynCookieTest, AShiftBeyondTheMaximumIsTheMaximum) {
  Agreed wanted = Everything();
  wanted.window_shift = 255;
  EXPECT_EQ(Make(wanted).agreed.window_shift, wire::kTcpMaxWindowShift);
}

TEST_F(SynCookieTest, ItsTimestampIsNotLaterThanTheClock) {
  for (uint32_t clock = 0xffffff00; clock != 0x100; ++clock) {
    const auto cookie = cookies_.Make(kTuple, kIrs, Everything(), clock, now_);
    const auto behind = static_cast<int32_t>(clock - cookie.timestamp);
    EXPECT_GE(behind, 0);
    EXPECT_LE(behind, 128);
  }
}

//= RFC 4987 A
TEST_F(SynCookieTest, ACookieExpiresAfterTheNextPeriod) {
  const auto cookie = Make(Everything());
  const auto period = SynCookies::kPeriod;
  const Time next = Time::FromNs((now_.ns() / period.ns() + 1) * period.ns());
  const Time last = next + period - Duration::Nanoseconds(1);
  // The flood goes on.
  now_ = last;
  (void)Make(Everything());
  EXPECT_TRUE(cookies_.Check(kTuple, AckOf(cookie), last).has_value());
  now_ = next + period;
  (void)Make(Everything());
  EXPECT_FALSE(cookies_.Check(kTuple, AckOf(cookie), now_).has_value());
  // The five bits of the period are the same again.
  now_ = now_ + period * 31;
  (void)Make(Everything());
  EXPECT_FALSE(cookies_.Check(kTuple, AckOf(cookie), now_).has_value());
}

TEST_F(SynCookieTest, WithoutAFloodNothingIsAccepted) {
  const SynCookies quiet(NumberKey{{11, 12}});
  const auto cookie = Make(Everything());
  EXPECT_FALSE(quiet.Check(kTuple, AckOf(cookie), now_).has_value());
  EXPECT_TRUE(cookies_.Check(kTuple, AckOf(cookie), now_).has_value());
}

//= RFC 4987 A
TEST_F(SynCookieTest, EachBitOfACookieCounts) {
  const auto cookie = Make(Everything());
  const auto refused = [&](const wire::TcpSegment& ack,
                           const FourTuple& tuple = kTuple) {
    return !cookies_.Check(tuple, ack, now_).has_value();
  };
  const wire::TcpSegment good = AckOf(cookie);
  ASSERT_FALSE(refused(good));
  for (int bit = 0; bit < 32; ++bit) {
    wire::TcpSegment ack = good;
    ack.ack = SeqNum((cookie.isn.value() ^ 1u << bit) + 1);
    EXPECT_TRUE(refused(ack)) << bit;
    ack = good;
    ack.seq = SeqNum(good.seq.value() ^ 1u << bit);
    EXPECT_TRUE(refused(ack)) << bit;
    ack = good;
    ack.options.timestamps->echo ^= 1u << bit;
    EXPECT_EQ(refused(ack), bit < 7) << bit;
  }
  wire::TcpSegment ack = good;
  ack.options.timestamps.reset();
  EXPECT_TRUE(refused(ack));
  FourTuple other = kTuple;
  other.remote_port ^= 1;
  EXPECT_TRUE(refused(good, other));
  other = kTuple;
  other.remote.bytes[15] ^= 1;
  EXPECT_TRUE(refused(good, other));
  cookies_ = SynCookies(NumberKey{{11, 13}});
  (void)Make(Everything());
  EXPECT_TRUE(refused(good)) << "another key";
}

// It follows what its peer sends with the first one.
TEST_F(SynCookieTest, ASegmentThatOvertakesTheFirstIsKnown) {
  const auto cookie = Make(Everything());
  wire::TcpSegment later = AckOf(cookie);
  EXPECT_TRUE(cookies_.MayFollow(kTuple, later, now_));
  later.seq = later.seq + 1000;
  EXPECT_FALSE(cookies_.Check(kTuple, later, now_).has_value());
  EXPECT_TRUE(cookies_.MayFollow(kTuple, later, now_));
  for (int bit = 16; bit < 32; ++bit) {
    wire::TcpSegment other = later;
    other.ack = SeqNum((cookie.isn.value() ^ 1u << bit) + 1);
    EXPECT_FALSE(cookies_.MayFollow(kTuple, other, now_)) << bit;
  }
  FourTuple other = kTuple;
  other.remote_port ^= 1;
  EXPECT_FALSE(cookies_.MayFollow(other, later, now_));
  EXPECT_FALSE(
      cookies_.MayFollow(kTuple, later, now_ + SynCookies::kPeriod * 2));
}

TEST_F(SynCookieTest, FewOtherSegmentsAreTakenForLaterOnes) {
  (void)Make(Everything());
  testing::Random random(4);
  int found = 0;
  for (int i = 0; i < 100'000; ++i) {
    wire::TcpSegment ack;
    ack.ack = SeqNum(static_cast<uint32_t>(random.Next()));
    found += cookies_.MayFollow(kTuple, ack, now_) ? 1 : 0;
  }
  EXPECT_GT(found, 20);
  EXPECT_LT(found, 90) << "one of 2048";
}

// One of 2^27 would succeed.
TEST_F(SynCookieTest, AMillionGuessesFail) {
  (void)Make(Everything());
  testing::Random random(2);
  int found = 0;
  for (int i = 0; i < 1000000; ++i) {
    wire::TcpSegment ack;
    ack.seq = SeqNum(static_cast<uint32_t>(random.Next()));
    ack.ack = SeqNum(static_cast<uint32_t>(random.Next()));
    if (i % 2 == 0) {
      ack.options.timestamps = {1, static_cast<uint32_t>(random.Next())};
    }
    found += cookies_.Check(kTuple, ack, now_).has_value() ? 1 : 0;
  }
  EXPECT_EQ(found, 0);
}

}  // namespace
}  // namespace urnic::tcp
