// Two ends that have lost each other's sequence numbers: each takes the
// segments of the other for old or forged ones, and answers them. Their answers
// must not go on forever.

#include <gtest/gtest.h>

#include <tuple>

#include "transport/iwarp/tcp/connection.h"
#include "transport/iwarp/tcp/connection_fixture.h"

namespace urnic::tcp {
namespace {

class LostNumbersTest
    : public ::testing::TestWithParam<std::tuple<uint32_t, bool>> {
 protected:
  void SetUp() override {
    const auto [offset, timestamps] = GetParam();
    ConnectionConfig config_a = TestConfig(1, 2);
    ConnectionConfig config_b = TestConfig(2, 1);
    config_a.offer.timestamps = timestamps;
    pair.a.connection.Connect(config_a, pair.now);
    wire::TcpSegment syn;
    static_cast<wire::TcpFields&>(syn) = pair.a.Transmit(pair.now)[0].fields;
    const Agreed agreed = config_b.offer.With(syn);
    const uint32_t stamp = timestamps ? syn.options.timestamps->value : 0;
    const Packet answer = {
        SynAck(config_b, agreed, config_a.iss + 1, stamp, stamp), {}};
    ASSERT_EQ(pair.a.Deliver(answer, pair.now), RxVerdict::kAccept);
    // Both numbers of b differ from what a knows.
    config_b.iss = config_b.iss + offset;
    pair.b.connection.Accept(config_b,
                             {.agreed = agreed,
                              .irs = config_a.iss + offset,
                              .ts_recent = stamp,
                              .window = UINT16_MAX,
                              .round_trip = {}},
                             pair.now);
    ASSERT_EQ(pair.a.connection.state(), State::kEstablished);
    pair.b.connection.AckNow();
    // The limit ends a test that fails.
    pair.passes = [this](TestEnd&, const Packet&) { return ++sent < 1000; };
  }

  Pair pair;
  uint64_t sent = 0;
};

//= RFC 5961 7, Linux tcp_oow_rate_limited()
TEST_P(LostNumbersTest, TheirAcknowledgementsDieOut) {
  pair.Run(Duration::Seconds(5));
  EXPECT_GE(sent, 2u);
  EXPECT_LE(sent, 6u);
}

//= RFC 5961 7, Linux tcp_oow_rate_limited()
TEST_P(LostNumbersTest, DataEndTheConnectionAfterAWhile) {
  pair.a.to_send = 1000;
  pair.Run(Duration::Seconds(200));
  EXPECT_EQ(pair.a.connection.ended(), End::kTimedOut);
  EXPECT_EQ(pair.b.received, 0u);
  EXPECT_LE(sent, 100u);
}

INSTANTIATE_TEST_SUITE_P(
    Offsets, LostNumbersTest,
    ::testing::Combine(::testing::Values(0x200000u, 0x10000000u, 0x80000000u,
                                         0xf0000000u),
                       ::testing::Bool()));

}  // namespace
}  // namespace urnic::tcp
