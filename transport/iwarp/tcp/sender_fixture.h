#pragma once

// A sender whose peer is the test.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "transport/iwarp/tcp/sender_model.h"

namespace urnic::tcp {

constexpr Duration Us(int64_t n) { return Duration::Microseconds(n); }
constexpr Duration Ms(int64_t n) { return Duration::Milliseconds(n); }

class SenderTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kMss = 1000;
  static constexpr SeqNum kFirst{0xfffff000};  // wraps soon
  static constexpr SeqNum kPeerSeq{7000};

  SenderTest() { Start(SenderConfig{.mss = kMss}); }

  void Start(const SenderConfig& config, uint32_t window = 1 << 20) {
    sender_.Start(config, &slab_, kFirst, kPeerSeq, window);
    window_ = window;
    sender_.cc = TestWindow();
    upper_ = TestUpper();
  }
  // With a known round trip.
  void Measured(Duration round_trip) {
    sender_.OnHandshakeRoundTrip(round_trip, now_);
  }
  void Pass(Duration time) { now_ = now_ + time; }

  std::vector<SegmentToSend> Send(uint32_t max = 64) {
    std::vector<SegmentToSend> out(max);
    out.resize(sender_.Transmit(now_, out, upper_));
    Check();
    return out;
  }
  std::vector<SegmentToSend> SendChunks(uint32_t chunks,
                                        uint32_t bytes = kMss) {
    upper_.Add(chunks, bytes);
    return Send();
  }
  // Fires the timers until now.
  void Fire() {
    while (sender_.deadline() <= now_) {
      const Time before = sender_.deadline();
      sender_.OnTimer(now_);
      Check();
      if (sender_.deadline() == before) break;
    }
  }
  void FireNext() {
    ASSERT_FALSE(sender_.deadline().IsInfinite());
    now_ = std::max(now_, sender_.deadline());
    sender_.OnTimer(now_);
    Check();
  }

  struct Block {
    uint32_t begin;
    uint32_t end;
  };
  // `ack` and the blocks count bytes of the stream.
  AckResult Ack(uint32_t ack, const std::vector<Block>& sacks = {}) {
    wire::TcpSegment segment = Segment(ack, sacks);
    return OnAck(segment);
  }
  wire::TcpSegment Segment(uint32_t ack, const std::vector<Block>& sacks = {}) {
    wire::TcpSegment segment;
    segment.seq = kPeerSeq;
    segment.ack = kFirst + ack;
    segment.flags = wire::kTcpAck;
    for (const Block& block : sacks) {
      segment.options.sack[segment.options.sack_count++] = {
          kFirst + block.begin, kFirst + block.end};
    }
    return segment;
  }
  AckResult OnAck(const wire::TcpSegment& segment) {
    const AckResult result = sender_.OnAck(segment, window_, now_, upper_);
    Check();
    return result;
  }
  AckResult AckWithEcho(uint32_t ack, Time echo,
                        const std::vector<Block>& sacks = {}) {
    wire::TcpSegment segment = Segment(ack, sacks);
    segment.options.timestamps = {.value = 1,
                                  .echo = TimestampClock().At(echo)};
    return OnAck(segment);
  }
  void Check() {
    CheckRecords(sender_.scoreboard(), sender_.una(), sender_.nxt());
  }
  static uint32_t At(const SegmentToSend& segment) {
    return static_cast<uint32_t>(segment.seq - kFirst);
  }

  Time now_ = Time::FromNs(5'000'000'000);
  SegmentSlab slab_{256};
  uint32_t window_ = 1 << 20;
  TestUpper upper_;
  Sender<TestWindow> sender_;
};

}  // namespace urnic::tcp
