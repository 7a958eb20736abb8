#include "transport/iwarp/tcp/isn.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace urnic::tcp {
namespace {

constexpr NumberKey kKey = {{1, 2}};
const FourTuple kTuple = {wire::Gid::FromIpv4(0x0a000001),
                          wire::Gid::FromIpv4(0x0a000002), 4000, 5000};

//= RFC 6528 3, RFC 9293 3.4.1
TEST(InitialNumbersTest, AnIsnGrowsByOneInFourMicroseconds) {
  const InitialNumbers numbers(kKey);
  const Time now = Time::FromNs(12345678000);
  const SeqNum isn = numbers.Isn(kTuple, now);
  EXPECT_EQ(numbers.Isn(kTuple, now + Duration::Microseconds(4)) - isn, 1);
  EXPECT_EQ(numbers.Isn(kTuple, now + Duration::Seconds(1)) - isn, 250000);
}

//= RFC 6528 3
TEST(InitialNumbersTest, EachConnectionHasAnIsnOfItsOwn) {
  const InitialNumbers numbers(kKey);
  std::set<uint32_t> isns;
  for (uint16_t port = 0; port < 1000; ++port) {
    FourTuple tuple = kTuple;
    tuple.remote_port = port;
    isns.insert(numbers.Isn(tuple, Time()).value());
  }
  EXPECT_EQ(isns.size(), 1000u);
  FourTuple swapped = kTuple;
  std::swap(swapped.local_port, swapped.remote_port);
  EXPECT_NE(numbers.Isn(swapped, Time()), numbers.Isn(kTuple, Time()));
  const InitialNumbers other(NumberKey{{1, 3}});
  EXPECT_NE(other.Isn(kTuple, Time()), numbers.Isn(kTuple, Time()));
}

//= RFC 9293 3.6.1
TEST(InitialNumbersTest, AReusedConnectionBeginsBehindTheLastOne) {
  const InitialNumbers numbers(kKey);
  const SeqNum isn = numbers.Isn(kTuple, Time());
  EXPECT_EQ(numbers.IsnAfter(kTuple, isn + 1000, Time()), isn + 1001);
  EXPECT_EQ(numbers.IsnAfter(kTuple, isn + uint32_t(-1000), Time()), isn);
}

//= RFC 7323 5.4, RFC 7323 7.1
TEST(InitialNumbersTest, TimestampsCountMillisecondsFromAnOffset) {
  const InitialNumbers numbers(kKey);
  const Time now = Time::FromNs(77000000);
  EXPECT_EQ(numbers.Timestamp(kTuple, now),
            numbers.TimestampOffset(kTuple) + 77);
  FourTuple other = kTuple;
  other.local_port = 1;
  EXPECT_NE(numbers.TimestampOffset(other), numbers.TimestampOffset(kTuple));
  // It says nothing about the ISN.
  EXPECT_NE(numbers.TimestampOffset(kTuple),
            numbers.Isn(kTuple, Time()).value());
}

}  // namespace
}  // namespace urnic::tcp
