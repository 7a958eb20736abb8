#include "transport/iwarp/tcp/path_mtu.h"

#include <gtest/gtest.h>

#include "tests/support/random.h"

namespace urnic::tcp {
namespace {

constexpr SeqNum kUna(0xffffff00);
constexpr SeqNum kNxt = kUna + 5000;

class PathMtuTest : public ::testing::Test {
 protected:
  PathMtuTest() { Start(9000); }
  void Start(uint32_t link_mtu, bool ipv6 = false, uint32_t path_mtu = 0) {
    mtu_.Start({ipv6, link_mtu, path_mtu}, now_);
  }
  bool TooBig(uint32_t reported, SeqNum quoted = kUna) {
    return mtu_.OnTooBig(reported, quoted, kUna, kNxt, now_);
  }
  bool TimeoutsShrink(uint32_t packet_bytes) {
    bool shrunk = false;
    for (uint32_t i = 0; i < PathMtu::kFullStop; ++i) {
      EXPECT_FALSE(shrunk);
      shrunk = mtu_.OnTimeout(packet_bytes, now_);
    }
    return shrunk;
  }
  // Probes of at most `path` arrive. Returns the number of probes sent within
  // this time.
  int Search(uint32_t path, Duration time) {
    int probes = 0;
    for (const Time end = now_ + time; now_ < end;
         now_ = now_ + Duration::Milliseconds(500)) {
      const uint32_t probe = mtu_.ProbeBytes(now_);
      if (probe == 0) continue;
      EXPECT_GT(probe, mtu_.mtu());
      EXPECT_EQ(mtu_.ProbeBytes(now_), probe) << "until it is sent";
      ++probes;
      mtu_.OnProbeSent(probe);
      EXPECT_EQ(mtu_.ProbeBytes(now_), 0u) << "one at a time";
      probe <= path ? mtu_.OnProbeAcked(now_) : mtu_.OnProbeLost(now_);
    }
    return probes;
  }

  Time now_ = Time::FromNs(1000000000);
  PathMtu mtu_;
};

TEST_F(PathMtuTest, ItBeginsWithWhatTheNetworkKnows) {
  EXPECT_EQ(mtu_.mtu(), 9000u);
  EXPECT_EQ(mtu_.header_bytes(), 40u);
  Start(1500, true);
  EXPECT_EQ(mtu_.header_bytes(), 60u);
  Start(1500, false, 1400);
  EXPECT_EQ(mtu_.mtu(), 1400u);
  Start(1500, false, 9000);
  EXPECT_EQ(mtu_.mtu(), 1500u);
  Start(1500, true, 600);
  EXPECT_EQ(mtu_.mtu(), 1280u);
}

//= RFC 5927 4.1
TEST_F(PathMtuTest, AMessageMustQuoteASegmentInFlight) {
  EXPECT_FALSE(TooBig(1400, kUna + uint32_t(-1)));
  EXPECT_FALSE(TooBig(1400, kNxt));
  EXPECT_EQ(mtu_.mtu(), 9000u);
  EXPECT_TRUE(TooBig(1400, kNxt + uint32_t(-1)));
  EXPECT_EQ(mtu_.mtu(), 1400u);
}

//= RFC 1191 3, RFC 8201 4
TEST_F(PathMtuTest, AMessageNeverRaisesTheMtuAndHasALeast) {
  EXPECT_FALSE(TooBig(9001));
  EXPECT_FALSE(TooBig(9000));
  EXPECT_TRUE(TooBig(68));
  EXPECT_EQ(mtu_.mtu(), 552u);
  EXPECT_FALSE(TooBig(100));
  EXPECT_FALSE(TooBig(1500));
}

//= RFC 8201 4
TEST_F(PathMtuTest, InIpv6AMessageOfLessThanTheLeastIsDiscarded) {
  Start(9000, true);
  EXPECT_FALSE(TooBig(1279));
  EXPECT_EQ(mtu_.mtu(), 9000u);
  EXPECT_TRUE(TooBig(1280));
  EXPECT_EQ(mtu_.mtu(), 1280u);
}

//= RFC 9293 3.7.1
TEST_F(PathMtuTest, TheLimitOfTheLinkIsObeyedAtOnce) {
  EXPECT_TRUE(mtu_.OnLimit(1500, now_));
  EXPECT_EQ(mtu_.mtu(), 1500u);
  EXPECT_FALSE(mtu_.OnLimit(1500, now_));
  EXPECT_EQ(Search(9000, Duration::Seconds(3600)), 0) << "the link is full";
  EXPECT_FALSE(mtu_.OnLimit(4000, now_)) << "nothing is lost";
  EXPECT_EQ(Search(9000, Duration::Seconds(1)), 1) << "tried at once";
  EXPECT_EQ(mtu_.mtu(), 4000u);
  EXPECT_TRUE(mtu_.OnLimit(100, now_));
  EXPECT_EQ(mtu_.mtu(), 552u) << "not below what a router may say";
}

TEST_F(PathMtuTest, ALinkThatGrowsSaysNothingAboutASmallerPath) {
  EXPECT_TRUE(TooBig(1400));
  EXPECT_FALSE(mtu_.OnLimit(1500, now_));
  EXPECT_FALSE(mtu_.OnLimit(9000, now_));
  EXPECT_EQ(mtu_.ProbeBytes(now_), 0u) << "ten minutes have not passed";
  EXPECT_EQ(mtu_.mtu(), 1400u);
}

TEST_F(PathMtuTest, AProbeThatTheLinkTakesNoLongerIsForgotten) {
  EXPECT_TRUE(TooBig(1400));
  now_ = now_ + PathMtu::kRaiseInterval;
  mtu_.OnProbeSent(mtu_.ProbeBytes(now_));
  EXPECT_TRUE(mtu_.OnLimit(1500, now_));
  mtu_.OnProbeAcked(now_);
  EXPECT_EQ(mtu_.mtu(), 1400u);
  EXPECT_EQ(Search(9000, Duration::Seconds(10)), 1);
  EXPECT_EQ(mtu_.mtu(), 1500u);
}

//= RFC 1191 6.3, RFC 8201 5.3
TEST_F(PathMtuTest, AfterTenMinutesALargerMtuIsTried) {
  EXPECT_TRUE(TooBig(1400));
  EXPECT_EQ(Search(9000, PathMtu::kRaiseInterval), 0);
  EXPECT_EQ(mtu_.ProbeBytes(now_), 9000u);
  EXPECT_EQ(Search(9000, Duration::Seconds(1)), 1);
  EXPECT_EQ(mtu_.mtu(), 9000u);
  EXPECT_EQ(Search(9000, Duration::Seconds(3600)), 0) << "the link is full";
}

//= RFC 4821 7.2, RFC 4821 7.7
TEST_F(PathMtuTest, RepeatedTimeoutsOfLargeSegmentsMeanABlackHole) {
  EXPECT_TRUE(TimeoutsShrink(9000));
  EXPECT_EQ(mtu_.mtu(), 1024u);
  EXPECT_TRUE(mtu_.OnTimeout(1024, now_)) << "the full stop goes on";
  EXPECT_EQ(mtu_.mtu(), 552u);
  EXPECT_FALSE(TimeoutsShrink(552));
  EXPECT_EQ(mtu_.mtu(), 552u);
  Start(9000, true);
  EXPECT_TRUE(TimeoutsShrink(9000));
  EXPECT_EQ(mtu_.mtu(), 1280u);
  EXPECT_FALSE(TimeoutsShrink(1280));
}

TEST_F(PathMtuTest, SegmentsOfTheNewSizeThatArriveEndAFullStop) {
  EXPECT_TRUE(TimeoutsShrink(9000));
  mtu_.OnAcked(1023);
  EXPECT_TRUE(mtu_.OnTimeout(1024, now_)) << "a smaller one arrived";
  Start(9000);
  EXPECT_TRUE(TimeoutsShrink(9000));
  mtu_.OnAcked(1024);
  EXPECT_TRUE(TimeoutsShrink(1024));
}

TEST_F(PathMtuTest, SmallSegmentsSayNothingAboutABlackHole) {
  EXPECT_FALSE(TimeoutsShrink(552)) << "small ones are lost for other reasons";
  EXPECT_FALSE(mtu_.OnTimeout(9000, now_));
  EXPECT_FALSE(mtu_.OnTimeout(9000, now_));
  mtu_.OnAcked(9000);
  EXPECT_FALSE(mtu_.OnTimeout(9000, now_));
  EXPECT_FALSE(mtu_.OnTimeout(9000, now_));
  mtu_.OnAcked(8999);
  EXPECT_TRUE(mtu_.OnTimeout(9000, now_)) << "a smaller one arrives";
}

// The message was shorter than the MTU, and is too long for the path.
TEST_F(PathMtuTest, AfterTimeoutsTheMtuIsSmallerThanWhatDidNotArrive) {
  Start(9000);
  EXPECT_TRUE(TimeoutsShrink(992));
  EXPECT_LT(mtu_.mtu(), 992u);
}

//= RFC 4821 7.3, RFC 4821 7.6.1, RFC 4821 7.6.2
TEST_F(PathMtuTest, TheSearchFindsWhatThePathCarries) {
  testing::Random random(1);
  for (int i = 0; i < 200; ++i) {
    const auto path = static_cast<uint32_t>(1024 + random.Below(9000 - 1024));
    Start(9000);
    EXPECT_TRUE(TimeoutsShrink(9000));
    const int probes = Search(path, Duration::Seconds(300));
    EXPECT_LE(mtu_.mtu(), path);
    EXPECT_GT(mtu_.mtu() + PathMtu::kPrecision + 1, path);
    EXPECT_LE(probes, 3 * 11);
    EXPECT_EQ(Search(path, Duration::Seconds(200)), 0) << "it is found";
  }
}

TEST_F(PathMtuTest, APeerThatWasAwayIsReachedWithTheOldSizeAtOnce) {
  EXPECT_TRUE(TimeoutsShrink(9000));
  EXPECT_EQ(Search(9000, Duration::Seconds(3)), 1);
  EXPECT_EQ(mtu_.mtu(), 9000u);
}

//= RFC 4821 7.6.4
TEST_F(PathMtuTest, AProbeThatIsLostWithOthersSaysNothing) {
  EXPECT_TRUE(TimeoutsShrink(9000));
  for (int i = 0; i < 10; ++i) {
    now_ = now_ + PathMtu::kProbeSpacing;
    EXPECT_EQ(mtu_.ProbeBytes(now_), 9000u);
    mtu_.OnProbeSent(9000);
    mtu_.OnProbeUnclear(now_);
    EXPECT_EQ(mtu_.ProbeBytes(now_), 0u);
  }
}

//= RFC 4821 7.6.2
TEST_F(PathMtuTest, ASizeIsTooLargeAfterThreeLostProbes) {
  EXPECT_TRUE(TimeoutsShrink(9000));
  for (uint32_t i = 0; i < PathMtu::kProbeLosses; ++i) {
    now_ = now_ + PathMtu::kProbeSpacing;
    EXPECT_EQ(mtu_.ProbeBytes(now_), 9000u);
    mtu_.OnProbeSent(9000);
    mtu_.OnProbeLost(now_);
    EXPECT_EQ(mtu_.ProbeBytes(now_), 0u) << "not immediately";
  }
  now_ = now_ + PathMtu::kProbeSpacing;
  EXPECT_LT(mtu_.ProbeBytes(now_), 9000u);
}

// The data decide how large a probe becomes.
//= RFC 4821 7.6.1, 7.6.2
TEST_F(PathMtuTest, TheSizeThatWasSentCounts) {
  EXPECT_TRUE(TimeoutsShrink(9000));
  now_ = now_ + PathMtu::kProbeSpacing;
  EXPECT_EQ(mtu_.ProbeBytes(now_), 9000u);
  mtu_.OnProbeSent(2000);
  mtu_.OnProbeAcked(now_);
  EXPECT_EQ(mtu_.mtu(), 2000u);
  for (const uint32_t sent : {3000u, 4000u, 3500u}) {
    now_ = now_ + PathMtu::kProbeSpacing;
    EXPECT_EQ(mtu_.ProbeBytes(now_), 5500u);
    mtu_.OnProbeSent(sent);
    mtu_.OnProbeLost(now_);
  }
  now_ = now_ + PathMtu::kProbeSpacing;
  EXPECT_EQ(mtu_.ProbeBytes(now_), 3000u) << "between 2000 and 3999";
}

TEST_F(PathMtuTest, AProbeEndsWhenTheMtuShrinks) {
  EXPECT_TRUE(TimeoutsShrink(9000));
  now_ = now_ + PathMtu::kProbeSpacing;
  EXPECT_EQ(mtu_.ProbeBytes(now_), 9000u);
  mtu_.OnProbeSent(9000);
  EXPECT_TRUE(TooBig(800));
  mtu_.OnProbeAcked(now_);
  EXPECT_EQ(mtu_.mtu(), 800u);
}

TEST_F(PathMtuTest, ARouterThatRefusesTheProbeSaysWhatToTry) {
  Start(1500);
  EXPECT_TRUE(TimeoutsShrink(1500));
  now_ = now_ + PathMtu::kProbeSpacing;
  EXPECT_EQ(mtu_.ProbeBytes(now_), 1500u);
  mtu_.OnProbeSent(1500);
  EXPECT_FALSE(TooBig(1500)) << "that is its size";
  EXPECT_TRUE(TooBig(1400));
  EXPECT_EQ(mtu_.mtu(), 1024u) << "the other segments arrive";
  mtu_.OnProbeLost(now_);
  EXPECT_EQ(Search(1400, Duration::Seconds(100)), 1);
  EXPECT_EQ(mtu_.mtu(), 1400u);
}

TEST_F(PathMtuTest, ARouterThatNamesTheMtuInUseEndsTheSearch) {
  Start(1500);
  EXPECT_TRUE(TimeoutsShrink(1500));
  now_ = now_ + PathMtu::kProbeSpacing;
  EXPECT_EQ(mtu_.ProbeBytes(now_), 1500u);
  mtu_.OnProbeSent(1500);
  EXPECT_TRUE(TooBig(1024));
  EXPECT_EQ(Search(1024, PathMtu::kRaiseInterval), 0);
}

// Any inputs: the MTU stays between its limits, and a probe is larger.
TEST_F(PathMtuTest, AnyInputsLeaveAPossibleMtu) {
  testing::Random random(2);
  for (int run = 0; run < 200; ++run) {
    const bool ipv6 = random.OneIn(2);
    const auto link = static_cast<uint32_t>(1280 + random.Below(8000));
    Start(link, ipv6, random.OneIn(2) ? 0 : random.Below(10000));
    for (int i = 0; i < 200; ++i) {
      const uint32_t before = mtu_.mtu();
      now_ = now_ + Duration::Milliseconds(static_cast<int64_t>(
                        random.Below(random.OneIn(9) ? 900000 : 2000)));
      switch (random.Below(6)) {
        case 0:
          if (TooBig(random.Below(10000))) {
            EXPECT_LE(mtu_.mtu(), before);
          }
          break;
        case 1:
          if (mtu_.OnTimeout(before, now_)) {
            EXPECT_LT(mtu_.mtu(), before);
          }
          break;
        case 2:
          mtu_.OnProbeAcked(now_);
          EXPECT_GE(mtu_.mtu(), before);
          break;
        case 3:
          mtu_.OnProbeLost(now_);
          break;
        case 4:
          mtu_.OnProbeUnclear(now_);
          break;
        default:
          if (const uint32_t probe = mtu_.ProbeBytes(now_); probe != 0) {
            EXPECT_GT(probe, mtu_.mtu());
            EXPECT_LE(probe, link);
            mtu_.OnProbeSent(probe - static_cast<uint32_t>(
                                         random.Below(probe - mtu_.mtu())));
          }
      }
      EXPECT_LE(mtu_.mtu(), link);
      EXPECT_GE(mtu_.mtu(), ipv6 ? 1280u : 552u);
    }
  }
}

}  // namespace
}  // namespace urnic::tcp
