#include "ras/trace/trace.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace urnic {
namespace {

class TraceTest : public ::testing::Test {
 protected:
  std::vector<TraceEvent> Kept() const {
    std::vector<TraceEvent> events;
    EXPECT_FALSE(trace_.Visit(0, SIZE_MAX, [&](const TraceEvent& event) {
      events.push_back(event);
    }));
    return events;
  }

  Time now_ = Time::FromNs(1000);
  Trace trace_{[this] { return now_; }};
};

TEST_F(TraceTest, KeepsWhatHasTheLevelOfItsComponent) {
  trace_.Add(TracePoint::kFailed, {.qpn = 17}, {1, 2, 3, 4});
  trace_.Add(TracePoint::kQpCreated, {.qpn = 18});  // functions: off
  now_ = Time::FromNs(2000);
  trace_.levels().Set(TraceComponent::kQp, trace_level::kFunctions);
  trace_.Add(TracePoint::kQpCreated, {.qpn = 19, .iwarp = true});
  trace_.Add(TracePoint::kVerbBegins, {});  // of another component
  const auto events = Kept();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].point, TracePoint::kFailed);
  EXPECT_EQ(events[0].at.ns(), 1000);
  EXPECT_EQ(events[0].subject.qpn, 17u);
  EXPECT_FALSE(events[0].subject.iwarp);
  EXPECT_EQ(events[0].words, (std::array<uint64_t, 4>{1, 2, 3, 4}));
  EXPECT_EQ(events[1].at.ns(), 2000);
  EXPECT_EQ(events[1].subject.qpn, 19u);
  EXPECT_TRUE(events[1].subject.iwarp);
}

TEST_F(TraceTest, KnowsWhereItHappened) {
  trace_.Add(TracePoint::kFailed, {});
  const uint16_t line = __LINE__ - 1;
  const TracePlace place = Kept()[0].place;
  EXPECT_EQ(place.line, line);
  EXPECT_STREQ(place.function, "TestBody");
  EXPECT_NE(std::string_view(place.file).find("ras/trace/trace_test.cc"),
            std::string_view::npos);
}

TEST_F(TraceTest, OffKeepsNothing) {
  trace_.levels().Set(TraceComponent::kQp, trace_level::kOff);
  trace_.Add(TracePoint::kFailed, {});
  EXPECT_EQ(trace_.added(), 0u);
}

TEST_F(TraceTest, TheNewestReplaceTheOldest) {
  for (uint64_t i = 0; i < Trace::kEntries + 5; ++i)
    trace_.Add(TracePoint::kFailed, {}, {i});
  const auto events = Kept();
  EXPECT_EQ(events.size(), Trace::kEntries);
  EXPECT_EQ(events.front().words[0], 5u);
  EXPECT_EQ(events.back().words[0], Trace::kEntries + 4);
}

TEST_F(TraceTest, CountsWhatItMissesWhileSomeoneReads) {
  trace_.Add(TracePoint::kFailed, {.qpn = 1});
  trace_.Hold(true);
  trace_.Add(TracePoint::kFailed, {.qpn = 2});
  trace_.Add(TracePoint::kVerbBegins, {});  // is off
  trace_.Hold(false);
  trace_.Add(TracePoint::kFailed, {.qpn = 3});
  const auto events = Kept();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].subject.qpn, 3u);
  EXPECT_EQ(trace_.missed(), 1u);
}

TEST(TraceLevelsTest, AreHotFromSevenOn) {
  TraceLevels levels;
  EXPECT_FALSE(levels.hot());
  levels.Set(TraceComponent::kReceive, trace_level::kHotFunctions);
  levels.Set(TraceComponent::kTransmit, trace_level::kData);
  EXPECT_TRUE(levels.hot());
  levels.Set(TraceComponent::kReceive, trace_level::kInternals);
  EXPECT_TRUE(levels.hot());
  levels.Set(TraceComponent::kTransmit, trace_level::kOff);
  EXPECT_FALSE(levels.hot());
}

TEST(TraceLevelsTest, FromText) {
  TraceLevels levels;
  std::string mistake;
  EXPECT_TRUE(SetTraceLevels("all=4,receive=8", levels, mistake));
  EXPECT_EQ(levels.Of(TraceComponent::kVerbs), 4);
  EXPECT_EQ(levels.Of(TraceComponent::kReceive), 8);
  EXPECT_TRUE(SetTraceLevels("all=0", levels, mistake));
  EXPECT_EQ(levels.Of(TraceComponent::kReceive), 0);
}

TEST(TraceLevelsTest, OfWrongTextSetNothing) {
  TraceLevels levels;
  std::string mistake;
  for (const char* text :
       {"", "receive", "receive=", "receive=10", "receive=x", "receive=-1",
        "nobody=1", "all=5,nobody=1", "all=5,", "all==5", "all=5 "}) {
    EXPECT_FALSE(SetTraceLevels(text, levels, mistake)) << text;
    EXPECT_NE(mistake, "") << text;
    EXPECT_EQ(levels.Of(TraceComponent::kVerbs), trace_level::kDefault) << text;
  }
}

TEST(TracePointsTest, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const TracePointWords& words : kTracePoints) {
    EXPECT_TRUE(names.insert(words.name).second) << words.name;
    EXPECT_FALSE(words.text.empty()) << words.name;
  }
}

}  // namespace
}  // namespace urnic
