#include "transport/rud/upper/path.h"

#include <gtest/gtest.h>

namespace urnic::rud::upper {
namespace {

constexpr auto kRoundTrip = Duration::Microseconds(400);

Path Measured() {
  Path path;
  // Until the variation is small.
  for (int i = 0; i < 100; ++i) path.shared.round_trip.OnSample(kRoundTrip);
  return path;
}

//= RFC 6298 5.5
TEST(Path, TheTimeOutDoublesUpToItsLimit) {
  const EndpointConfig config;
  const Path path = Measured();
  const Duration first = path.TimeOut(config, 0);
  EXPECT_GE(first, kRoundTrip * 2);
  EXPECT_EQ(path.TimeOut(config, 1), first * 2);
  EXPECT_EQ(path.TimeOut(config, 200), config.max_time_out);
  EXPECT_EQ(Path().TimeOut(config, 0), config.first_time_out);
}

//= RFC 8985 6.2
TEST(Path, ACommandThatWasPassedIsLostARoundTripAndAQuarterAfterItWasSent) {
  const EndpointConfig config;
  Path path = Measured();
  Lane lane;
  lane.sent = Time::FromNs(1'000'000);
  lane.order = 5;
  EXPECT_EQ(path.DueAt(config, lane), lane.sent + path.TimeOut(config, 0));
  path.completed_order = 6;
  EXPECT_EQ(path.DueAt(config, lane),
            lane.sent + kRoundTrip + Duration::Microseconds(100));
}

//= RFC 8985 6.2.4
TEST(Path, WhatComesLateMakesThePathMorePatientForSixteenLosses) {
  Path path = Measured();
  path.OnEarly();
  path.OnEarly();
  EXPECT_EQ(path.reordering, 3);
  for (int i = 0; i < 15; ++i) path.OnLost();
  EXPECT_EQ(path.reordering, 3);
  path.OnLost();
  EXPECT_EQ(path.reordering, 2);
  for (int i = 0; i < 100; ++i) path.OnEarly();
  EXPECT_EQ(path.reordering, Path::kMostReordering);
  for (int i = 0; i < 1000; ++i) path.OnLost();
  EXPECT_EQ(path.reordering, 1);
}

// The answer to one packet comes earlier than the answer to sixteen. It must
// not look like a path without a queue.
TEST(Path, SmallUnitsAmongLargeOnesAreNotMeasured) {
  Path path;
  path.OnSample(16, kRoundTrip);
  EXPECT_EQ(path.sample, kRoundTrip);
  path.OnSample(1, kRoundTrip * 2);
  EXPECT_EQ(path.sample, kRoundTrip);
  // But they are measured if there are no others.
  for (int i = 0; i < 100; ++i) path.OnSample(1, kRoundTrip * 2);
  EXPECT_EQ(path.sample, kRoundTrip * 2);
}

}  // namespace
}  // namespace urnic::rud::upper
