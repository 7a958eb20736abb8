#pragma once

// Two connections, and a wire between them in virtual time.

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "tests/support/bad_wire.h"
#include "transport/base/random.h"
#include "transport/iwarp/tcp/connection.h"
#include "transport/iwarp/tcp/half_open.h"

namespace urnic::tcp {

inline constexpr NumberKey kTestKey = {
    {0x1111222233334444, 0x5555666677778888}};

// The byte of the stream of `seed` at this place.
inline uint8_t ByteAt(uint64_t seed, uint64_t at) {
  return static_cast<uint8_t>((at + seed) * 0x9e3779b97f4a7c15 >> 56);
}

// A segment under way, with its bytes.
struct Packet {
  wire::TcpFields fields;
  std::vector<uint8_t> payload;
};

// Frames live as long as the test.
class TestKeeper final : public FrameKeeper {
 public:
  uint32_t Keep(const ReceivedFrame&, FrameHolder& holder) override {
    if (holder.kept == holder.limit) return kRefused;
    ++holder.kept;
    return next_++;
  }
  void Release(uint32_t, FrameHolder& holder) override { --holder.kept; }

 private:
  uint32_t next_ = 0;
};

class TestEnd {
 public:
  explicit TestEnd(uint64_t seed)
      : connection(&segments_, &ranges_, &keeper_, &challenges_), seed_(seed) {}

  RxVerdict Deliver(const Packet& packet, Time now) {
    frames_.push_back(packet.payload);
    wire::TcpSegment segment;
    static_cast<wire::TcpFields&>(segment) = packet.fields;
    segment.payload = frames_.back();
    const RxVerdict verdict = connection.OnSegment(
        segment, {frames_.back(), &frames_.back()}, now, *this);
    if (executes) connection.ReleaseDelivered();
    return verdict;
  }
  std::vector<Packet> Transmit(Time now) {
    std::vector<Packet> packets;
    TcpSlot slots[4];
    while (const uint32_t count = connection.Transmit(now, slots, *this)) {
      for (const TcpSlot& slot : std::span(slots).first(count)) {
        Packet packet{slot.fields, std::vector<uint8_t>(slot.bytes)};
        for (uint32_t i = 0; i < slot.bytes; ++i) {
          packet.payload[i] = ByteAt(seed_, slot.source + slot.offset + i);
        }
        packets.push_back(packet);
      }
    }
    return packets;
  }

  // For the connection.
  Chunk NextChunk(uint32_t max_bytes) {
    const auto bytes = static_cast<uint32_t>(
        std::min<uint64_t>(to_send - cut, std::min(max_bytes, chunk_bytes)));
    const Chunk chunk = {cut, bytes};
    if (bytes != 0) under_way_.push_back(chunk);
    cut += bytes;
    return chunk;
  }
  void OnChunkAcked(uint64_t source) {
    ASSERT_FALSE(under_way_.empty());
    ASSERT_EQ(source, under_way_.front().source);
    acked += under_way_.front().bytes;
    under_way_.pop_front();
  }
  uint32_t OnBytes(SeqNum, std::span<const uint8_t> bytes,
                   const ReceivedFrame&) {
    for (const uint8_t byte : bytes) {
      EXPECT_EQ(byte, ByteAt(peer_seed, received)) << "at " << received;
      ++received;
    }
    return static_cast<uint32_t>(bytes.size());
  }

  bool executes = true;  // the placements of each segment
  uint64_t to_send = 0;
  uint32_t chunk_bytes = UINT32_MAX;
  uint64_t cut = 0;
  uint64_t acked = 0;
  uint64_t received = 0;
  uint64_t peer_seed = 0;

 private:
  SegmentSlab segments_{64};
  RangePool ranges_{2048};
  TestKeeper keeper_;
  ChallengeBudget challenges_{kTestKey, 1000};

 public:
  Connection connection;

 private:
  const uint64_t seed_;
  std::deque<Chunk> under_way_;
  std::deque<std::vector<uint8_t>> frames_;
};

inline ConnectionConfig TestConfig(uint16_t local, uint16_t remote) {
  ConnectionConfig config;
  config.local_port = local;
  config.remote_port = remote;
  config.iss = SeqNum(0xffffff00u + local);  // wraps soon
  config.timestamp_offset = 0xfffffff0u;
  return config;
}

class Pair {
 public:
  explicit Pair(uint64_t seed = 1) : random(seed) {
    a.peer_seed = kSeedB;
    b.peer_seed = kSeedA;
  }

  // An established connection: by a's SYN, and a listener on b's side.
  void Establish(const ConnectionConfig& config_a = TestConfig(1, 2),
                 const ConnectionConfig& config_b = TestConfig(2, 1)) {
    a.connection.Connect(config_a, now);
    ChallengeBudget challenges(kTestKey, 1000);
    HalfOpenTable half_open(kTestKey, 8, &challenges);
    const FourTuple tuple = {{}, {}, 2, 1};
    for (int tries = 0; b.connection.state() == State::kClosed; ++tries) {
      ASSERT_LT(tries, 4);
      for (const Packet& packet : a.Transmit(now)) {
        wire::TcpSegment segment;
        static_cast<wire::TcpFields&>(segment) = packet.fields;
        if (segment.Has(wire::kTcpSyn)) {
          const Packet answer = {half_open.OnSyn(tuple, segment, config_b.offer,
                                                 config_b.window_bytes, now),
                                 {}};
          ASSERT_EQ(a.Deliver(answer, now), RxVerdict::kAccept);
          continue;
        }
        const auto accepted = half_open.OnSegment(tuple, segment, now).accepted;
        ASSERT_TRUE(accepted.has_value());
        ConnectionConfig config = config_b;
        config.iss = accepted->iss;
        config.timestamp_offset = accepted->timestamp_offset;
        b.connection.Accept(config, accepted->handshake, now);
        ASSERT_EQ(b.Deliver(packet, now), RxVerdict::kAccept);
      }
    }
    ASSERT_EQ(a.connection.state(), State::kEstablished);
  }

  // Runs until nothing happens any more, or for so long.
  void Run(Duration limit = Duration::Seconds(600)) {
    const Time end = now + limit;
    while (true) {
      Send(a, to_b_);
      Send(b, to_a_);
      const Time next =
          std::min({to_a_.next(), to_b_.next(), a.connection.deadline(),
                    b.connection.deadline()});
      if (next.IsInfinite()) return;
      if (next > end) {
        now = end;
        return;
      }
      now = std::max(now, next);
      Receive(a, to_a_);
      Receive(b, to_b_);
      for (TestEnd* side : {&a, &b}) {
        if (now >= side->connection.deadline()) {
          side->connection.OnTimer(now);
        }
      }
    }
  }

  static constexpr uint64_t kSeedA = 77;
  static constexpr uint64_t kSeedB = 1234567;
  Time now = Time::FromNs(1'000'000'000'000);
  Random random;
  testing::WireFaults faults;
  // Whether the path carries a packet. It may report to `from`.
  std::function<bool(TestEnd& from, const Packet&)> passes =
      [](TestEnd&, const Packet&) { return true; };
  TestEnd a{kSeedA};
  TestEnd b{kSeedB};
  std::map<RxVerdict, uint64_t> verdicts;

 private:
  using Line = testing::BadWire<Packet>;

  void Send(TestEnd& from, Line& line) {
    while (true) {
      const auto packets = from.Transmit(now);
      if (packets.empty()) return;
      for (const Packet& packet : packets) {
        if (passes(from, packet)) line.Put(packet, faults, now, random);
      }
    }
  }
  void Receive(TestEnd& to, Line& line) {
    while (line.next() <= now) ++verdicts[to.Deliver(line.Take(), now)];
  }

  Line to_a_;
  Line to_b_;
};

}  // namespace urnic::tcp
