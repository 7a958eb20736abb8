// Which claims are believed, which neighbours are asked for and when, and which
// entries are evicted: neighbor_cache.h.

#include "transport/net/neighbor_cache.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/host_wire.h"

namespace urnic::net {
namespace {

using testing::GidOf;
using testing::HostSink;
using testing::MacOf;
using testing::WordsOf;

constexpr uint32_t kCapacity = 64;
constexpr Duration kMs = Duration::Milliseconds(1);

class NeighborCacheTest : public ::testing::TestWithParam<bool> {
 protected:
  NeighborCacheTest() {
    addresses_.Set({{GidOf(1, false), 96 + 24}, {GidOf(1, true), 64}});
  }
  wire::Gid Gid(uint8_t n) const { return GidOf(n, GetParam()); }
  wire::Gid Stranger(uint32_t n) const {
    wire::Gid gid = Gid(0);
    gid.bytes[13] = 0x80;
    gid.bytes[14] = static_cast<uint8_t>(n >> 8);
    gid.bytes[15] = static_cast<uint8_t>(n);
    return gid;
  }

  uint32_t Hear(const NeighborClaim& claim) {
    return cache_.OnClaim(claim, now_, sink_);
  }
  void HearAsker(uint8_t n) {
    (void)Hear({.address = Gid(n), .mac = MacOf(n), .asks_us = true});
  }
  // Makes the neighbour known and returns what a path to it holds.
  AdjacencyPtr Live(uint8_t n) {
    HearAsker(n);
    return cache_.Find(Gid(n), now_);
  }
  void Answer(uint8_t n, uint8_t mac) {
    (void)Hear({.address = Gid(n), .mac = MacOf(mac), .answers = true});
  }
  void Claim(uint8_t n, uint8_t mac) {
    (void)Hear({.address = Gid(n), .mac = MacOf(mac)});
  }
  uint32_t Want(uint8_t n) { return cache_.Want(Gid(n), Gid(1), now_, sink_); }

  void Pass(Duration time) {
    const Time end = now_ + time;
    Note();
    while (cache_.NextDeadline() <= end) {
      now_ = std::max(now_, cache_.NextDeadline());
      cache_.OnTimer(now_, sink_);
      Note();
    }
    now_ = end;
    Note();
  }
  // What was sent, with its time.
  struct Asked {
    int64_t ms;
    wire::Gid target;
    wire::MacAddress to;
  };
  void Note() {
    for (const auto& frame : sink_.Take()) {
      const auto words = WordsOf(frame);
      ASSERT_TRUE(words.has_value());
      ASSERT_EQ(words->info.kind, wire::NeighborKind::kSolicit);
      ASSERT_EQ(words->info.owner, Gid(1));
      ASSERT_EQ(words->info.owner_mac, MacOf(1));
      asked_.push_back(
          {(now_ - start_).ns() / kMs.ns(), words->info.asked, words->to});
    }
  }
  std::vector<int64_t> AskedAt() {
    Note();
    std::vector<int64_t> list;
    for (const Asked& asked : asked_) list.push_back(asked.ms);
    return list;
  }
  NeighborState State(uint8_t n) const { return cache_.StateOf(Gid(n), now_); }

  LocalAddresses addresses_;
  NeighborCache cache_{{.mac = MacOf(1), .capacity = kCapacity, .salt = 5},
                       &addresses_};
  HostSink sink_;
  const Time start_ = Time::FromNs(1000000000);
  Time now_ = start_;
  std::vector<Asked> asked_;
};

TEST_P(NeighborCacheTest, AnUnknownNeighbourIsAskedForLessAndLessOften) {
  (void)Want(2);
  Pass(Duration::Milliseconds(3500));
  const std::vector<int64_t> times = {0,   20,   60,   140, 300,
                                      620, 1260, 2260, 3260};
  EXPECT_EQ(AskedAt(), times);
  for (const Asked& asked : asked_) {
    EXPECT_TRUE(asked.to.is_group());
    EXPECT_EQ(asked.target, Gid(2));
  }
}

TEST_P(NeighborCacheTest, ManyQuestionsForOneNeighbourAskOnce) {
  const uint32_t entry = Want(2);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(Want(2), entry);
  Pass(kMs * 19);
  EXPECT_EQ(AskedAt().size(), 1u);
  EXPECT_EQ(Hear({.address = Gid(2), .mac = MacOf(2), .answers = true}), entry);
  EXPECT_EQ(cache_.At(entry)->mac(), MacOf(2));
  Pass(Duration::Seconds(5));
  EXPECT_EQ(AskedAt().size(), 1u);
}

TEST_P(NeighborCacheTest, ALaterQuestionDoesNotWaitForTheLongInterval) {
  (void)Want(2);
  Pass(Duration::Milliseconds(2300));
  asked_.clear();
  (void)Want(2);
  Pass(kMs * 100);
  const std::vector<int64_t> times = {2300, 2320, 2360};
  EXPECT_EQ(AskedAt(), times);
}

TEST_P(NeighborCacheTest, AnUnwantedNeighbourIsNotAskedFor) {
  const uint32_t entry = Want(2);
  cache_.Unwant(entry);
  Pass(Duration::Seconds(5));
  EXPECT_EQ(AskedAt().size(), 1u);
  EXPECT_EQ(cache_.size(), 0u);
  EXPECT_TRUE(cache_.NextDeadline().IsInfinite());
}

TEST_P(NeighborCacheTest, ALateAnswerIsKept) {
  cache_.Unwant(Want(2));
  Pass(kMs * 900);
  Answer(2, 2);
  EXPECT_NE(cache_.Find(Gid(2), now_), nullptr);
  Pass(Duration::Seconds(5));
  EXPECT_EQ(AskedAt().size(), 1u);
}

//= RFC 4861 7.3.2, 10
TEST_P(NeighborCacheTest, ANeighbourThatAsksForUsIsKnownForThirtySeconds) {
  HearAsker(2);
  EXPECT_EQ(State(2), NeighborState::kReachable);
  Pass(Duration::Seconds(30));
  EXPECT_EQ(State(2), NeighborState::kStale);
  EXPECT_EQ(cache_.Find(Gid(2), now_), nullptr);
  EXPECT_TRUE(AskedAt().empty());
}

TEST_P(NeighborCacheTest, StrangersThatDoNotAskForUsAreNotRemembered) {
  Claim(2, 2);
  Answer(2, 2);
  EXPECT_EQ(State(2), NeighborState::kUnknown);
}

TEST_P(NeighborCacheTest, AnswersToWhatWasSentKeepANeighbourReachable) {
  const AdjacencyPtr adjacency = Live(2);
  Pass(Duration::Seconds(29));
  adjacency->Confirm(now_);
  Pass(Duration::Seconds(29));
  EXPECT_EQ(State(2), NeighborState::kReachable);
}

//= RFC 4861 7.3.2
TEST_P(NeighborCacheTest, AStaleNeighbourIsFirstAskedByUnicast) {
  HearAsker(2);
  Pass(Duration::Seconds(31));
  const uint32_t entry = Want(2);
  Pass(kMs * 60);
  const std::vector<int64_t> times = {31000, 31010, 31020, 31030, 31050};
  EXPECT_EQ(AskedAt(), times);
  for (size_t i = 0; i < times.size(); ++i) {
    EXPECT_EQ(asked_[i].to == MacOf(2), i < 3);
  }
  // It answers from another MAC.
  EXPECT_EQ(Hear({.address = Gid(2), .mac = MacOf(9), .answers = true}), entry);
  EXPECT_EQ(cache_.At(entry)->mac(), MacOf(9));
}

// --- Moves -------------------------------------------------------------------

TEST_P(NeighborCacheTest, AClaimDoesNotMoveANeighbourThatAnswers) {
  const AdjacencyPtr adjacency = Live(2);
  Claim(2, 66);
  EXPECT_EQ(adjacency->mac(), MacOf(2));
  Pass(kMs * 5);
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_EQ(asked_[0].to, MacOf(2)) << "the one that we know is asked";
  Answer(2, 2);
  Pass(Duration::Seconds(5));
  EXPECT_EQ(adjacency->mac(), MacOf(2));
  EXPECT_EQ(adjacency->generation(), 0u);
  EXPECT_EQ(asked_.size(), 1u);
  EXPECT_EQ(State(2), NeighborState::kReachable);
}

TEST_P(NeighborCacheTest, AMoveIsFollowedWithinThirtyMilliseconds) {
  const AdjacencyPtr adjacency = Live(2);
  Claim(2, 9);
  Pass(kMs * 29);
  EXPECT_EQ(adjacency->mac(), MacOf(2));
  Pass(kMs * 1);
  EXPECT_EQ(adjacency->mac(), MacOf(9));
  EXPECT_EQ(adjacency->generation(), 1u);
  const std::vector<int64_t> times = {0, 10, 20, 30};
  EXPECT_EQ(AskedAt(), times);
  EXPECT_EQ(asked_[3].to, MacOf(9)) << "and the new one is asked in turn";
  Answer(2, 9);
  Pass(Duration::Seconds(5));
  EXPECT_EQ(AskedAt().size(), 4u);
  EXPECT_EQ(State(2), NeighborState::kReachable);
}

TEST_P(NeighborCacheTest, AFalseClaimThatWasBelievedIsCorrected) {
  const AdjacencyPtr adjacency = Live(2);
  Claim(2, 66);
  Pass(kMs * 70);  // all probes of both are lost
  EXPECT_EQ(adjacency->mac(), MacOf(66));
  EXPECT_EQ(State(2), NeighborState::kSearch);
  Answer(2, 2);
  EXPECT_EQ(adjacency->mac(), MacOf(2));
  EXPECT_EQ(adjacency->generation(), 2u);
}

// Claims of the old MAC that answer no question do not count.
TEST_P(NeighborCacheTest, OnlyAnAnswerEndsTheDoubt) {
  const AdjacencyPtr adjacency = Live(2);
  Claim(2, 9);
  Pass(kMs * 5);
  Claim(2, 2);
  HearAsker(2);
  Pass(kMs * 25);
  EXPECT_EQ(adjacency->mac(), MacOf(9));
}

TEST_P(NeighborCacheTest, AFloodOfFalseClaimsProbesTenTimesASecond) {
  const AdjacencyPtr adjacency = Live(2);
  for (int i = 0; i < 10000; ++i) {
    Claim(2, static_cast<uint8_t>(100 + i % 100));
    Note();
    if (State(2) == NeighborState::kProbe) Answer(2, 2);
    Pass(Duration::Microseconds(100));
  }
  EXPECT_EQ(adjacency->mac(), MacOf(2));
  EXPECT_LE(AskedAt().size(), 11u);
}

TEST_P(NeighborCacheTest, AMoveDuringTheQuietTimeIsNotForgotten) {
  const AdjacencyPtr adjacency = Live(2);
  Claim(2, 66);
  Answer(2, 2);
  Pass(kMs * 10);
  Claim(2, 9);
  Pass(kMs * 89);
  EXPECT_EQ(adjacency->mac(), MacOf(2));
  Pass(kMs * 31);
  EXPECT_EQ(adjacency->mac(), MacOf(9));
}

TEST_P(NeighborCacheTest, WithoutAPathTheLastClaimIsBelieved) {
  HearAsker(2);
  Claim(2, 9);
  EXPECT_EQ(cache_.Find(Gid(2), now_)->mac(), MacOf(9));
  EXPECT_TRUE(AskedAt().empty());
}

//= RFC 4861 7.2.5
TEST_P(NeighborCacheTest, AnAdvertisementThatMayNotOverrideOnlyRaisesDoubt) {
  const AdjacencyPtr adjacency = Live(2);
  (void)Hear({.address = Gid(2), .mac = MacOf(9), .may_override = false});
  EXPECT_EQ(State(2), NeighborState::kStale);
  Pass(Duration::Seconds(1));
  EXPECT_EQ(adjacency->mac(), MacOf(2));
}

TEST_P(NeighborCacheTest, ADoubtDoesNotEndAQuestion) {
  const AdjacencyPtr adjacency = Live(2);
  Pass(Duration::Seconds(31));
  const uint32_t entry = Want(2);
  adjacency->Confirm(now_ = now_ + kMs);
  // The confirmation counts before the other MAC raises a doubt.
  EXPECT_EQ(Hear({.address = Gid(2), .mac = MacOf(9), .may_override = false}),
            entry);
  EXPECT_EQ(cache_.At(entry)->mac(), MacOf(2));
  cache_.Unwant(entry);
  cache_.CheckInvariants();
}

TEST_P(NeighborCacheTest, AQuestionOutlivesAnOldConfirmation) {
  const AdjacencyPtr adjacency = Live(2);
  Pass(Duration::Seconds(31));
  sink_.full = true;
  const uint32_t entry = Want(2);
  adjacency->Confirm(now_ = now_ + kMs);
  Pass(Duration::Seconds(31));
  EXPECT_EQ(Hear({.address = Gid(2), .mac = MacOf(9), .may_override = false}),
            NeighborCache::kNone);
  cache_.CheckInvariants();
  sink_.full = false;
  Pass(kMs * 10);
  EXPECT_EQ(Hear({.address = Gid(2), .mac = MacOf(2), .answers = true}), entry);
}

TEST_P(NeighborCacheTest, AQuestionWaitsForAnAddressToAskWith) {
  const AdjacencyPtr adjacency = Live(2);
  Pass(Duration::Seconds(31));
  const LocalAddresses some = addresses_;
  addresses_.Set({});
  (void)Want(2);
  Pass(kMs * 50);
  cache_.CheckInvariants();
  EXPECT_TRUE(AskedAt().empty());
  addresses_ = some;
  Pass(kMs * 10);
  EXPECT_FALSE(AskedAt().empty());
}

TEST_P(NeighborCacheTest, AProbeThatWasNotSentDoesNotCount) {
  const AdjacencyPtr adjacency = Live(2);
  sink_.full = true;
  Claim(2, 66);
  Pass(Duration::Seconds(1));
  EXPECT_EQ(adjacency->mac(), MacOf(2));
  sink_.full = false;
  Pass(kMs * 40);
  EXPECT_EQ(adjacency->mac(), MacOf(66));
}

TEST_P(NeighborCacheTest, WithoutAnAddressNoNeighbourIsAskedOrMoved) {
  const AdjacencyPtr adjacency = Live(2);
  addresses_.Set({});
  Claim(2, 66);
  Pass(Duration::Seconds(1));
  EXPECT_EQ(adjacency->mac(), MacOf(2));
  EXPECT_TRUE(AskedAt().empty());
}

// --- Silence -----------------------------------------------------------------

TEST_P(NeighborCacheTest, ASilentNeighbourIsProbedThenSearchedFor) {
  const AdjacencyPtr adjacency = Live(2);
  cache_.Suspect(*adjacency, now_, sink_);
  cache_.Suspect(*adjacency, now_, sink_);
  Pass(kMs * 140);
  const std::vector<int64_t> times = {0, 10, 20, 30, 50, 90};
  EXPECT_EQ(AskedAt(), times);
  for (size_t i = 0; i < times.size(); ++i) {
    EXPECT_EQ(asked_[i].to == MacOf(2), i < 3);
  }
  Answer(2, 9);
  EXPECT_EQ(adjacency->mac(), MacOf(9));
  EXPECT_EQ(adjacency->generation(), 1u);
}

TEST_P(NeighborCacheTest, TheSearchForASilentNeighbourEnds) {
  const AdjacencyPtr adjacency = Live(2);
  cache_.Suspect(*adjacency, now_, sink_);
  Pass(Duration::Seconds(10));
  EXPECT_EQ(State(2), NeighborState::kStale);
  EXPECT_TRUE(cache_.NextDeadline().IsInfinite());
  EXPECT_LE(AskedAt().size(), 12u);
  EXPECT_EQ(adjacency->mac(), MacOf(2));
  cache_.Suspect(*adjacency, now_, sink_);
  EXPECT_EQ(State(2), NeighborState::kProbe);
}

TEST_P(NeighborCacheTest, DuringRetriesTheIntervalsStayShort) {
  const AdjacencyPtr adjacency = Live(2);
  for (int i = 0; i < 40; ++i) {
    cache_.Suspect(*adjacency, now_, sink_);
    Pass(kMs * 50);
  }
  const std::vector<int64_t> times = AskedAt();
  for (size_t i = 1; i < times.size(); ++i) {
    EXPECT_LE(times[i] - times[i - 1], 200);
  }
  EXPECT_LE(times.size(), 25u);
}

TEST_P(NeighborCacheTest, AConfirmedNeighbourIsNotSearchedFor) {
  const AdjacencyPtr adjacency = Live(2);
  cache_.Suspect(*adjacency, now_, sink_);
  Pass(kMs * 100);
  ASSERT_EQ(State(2), NeighborState::kSearch);
  adjacency->Confirm(now_);
  Claim(2, 66);
  EXPECT_EQ(adjacency->mac(), MacOf(2)) << "a lie no longer finds us in doubt";
  Answer(2, 2);
  EXPECT_EQ(State(2), NeighborState::kReachable);
  Pass(kMs * 200);
  cache_.Suspect(*adjacency, now_, sink_);
  Pass(kMs * 5);
  adjacency->Confirm(now_);
  asked_.clear();
  Pass(kMs * 200);
  EXPECT_EQ(State(2), NeighborState::kReachable);
  EXPECT_TRUE(asked_.empty());
}

TEST_P(NeighborCacheTest, ANeighbourThatHasJustAnsweredIsNotSuspected) {
  const AdjacencyPtr adjacency = Live(2);
  cache_.Suspect(*adjacency, now_, sink_);
  Answer(2, 2);
  for (int i = 0; i < 99; ++i) {
    cache_.Suspect(*adjacency, now_, sink_);
    Pass(kMs);
  }
  EXPECT_EQ(AskedAt().size(), 1u);
  Pass(kMs);
  cache_.Suspect(*adjacency, now_, sink_);
  EXPECT_EQ(AskedAt().size(), 2u);
}

TEST_P(NeighborCacheTest, AnAdjacencyOfAnotherCacheIsIgnored) {
  NeighborCache other({.mac = MacOf(1), .capacity = 1}, &addresses_);
  (void)other.OnClaim({.address = Gid(2), .mac = MacOf(2), .asks_us = true},
                      now_, sink_);
  const AdjacencyPtr foreign = other.Find(Gid(2), now_);
  HearAsker(2);
  cache_.Suspect(*foreign, now_, sink_);
  EXPECT_TRUE(AskedAt().empty());
}

// --- Room --------------------------------------------------------------------

TEST_P(NeighborCacheTest, StrangersDoNotEvictNeighboursInUse) {
  std::vector<AdjacencyPtr> used;
  for (uint8_t n = 2; n < 50; ++n) used.push_back(Live(n));
  const uint32_t wanted = Want(50);
  for (uint32_t i = 0; i < 10000; ++i) {
    (void)Hear({.address = Stranger(i), .mac = MacOf(66), .asks_us = true});
    ASSERT_LE(cache_.size(), kCapacity);
  }
  for (const AdjacencyPtr& adjacency : used) {
    EXPECT_EQ(cache_.Find(adjacency->address(), now_), adjacency);
  }
  EXPECT_EQ(Hear({.address = Gid(50), .mac = MacOf(50)}), wanted);
  // Some of the latest strangers are known.
  int known = 0;
  for (uint32_t i = 9980; i < 10000; ++i) {
    known += cache_.Find(Stranger(i), now_) != nullptr ? 1 : 0;
  }
  EXPECT_GT(known, 0);
}

TEST_P(NeighborCacheTest, WithAllEntriesInUseNoNewNeighbourIsAskedFor) {
  std::vector<AdjacencyPtr> used;
  for (uint8_t n = 2; n < 2 + kCapacity; ++n) used.push_back(Live(n));
  EXPECT_EQ(Want(200), NeighborCache::kNone);
  HearAsker(201);
  EXPECT_EQ(State(201), NeighborState::kUnknown);
  used.pop_back();
  EXPECT_NE(Want(200), NeighborCache::kNone);
  EXPECT_EQ(State(1 + kCapacity), NeighborState::kUnknown);
}

TEST_P(NeighborCacheTest, TheEntryHeardLongestAgoIsEvicted) {
  for (uint8_t n = 2; n < 2 + kCapacity; ++n) {
    HearAsker(n);
    Pass(kMs);
  }
  HearAsker(2);
  HearAsker(200);
  EXPECT_EQ(State(2), NeighborState::kReachable);
  EXPECT_EQ(State(3), NeighborState::kUnknown);
}

INSTANTIATE_TEST_SUITE_P(Families, NeighborCacheTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Ipv6" : "Ipv4";
                         });

}  // namespace
}  // namespace urnic::net
