#pragma once

// A receiver with its custody, and a layer above that records what it gets.

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/fragments.h"
#include "transport/base/check.h"
#include "transport/iwarp/tcp/receiver.h"

namespace urnic::tcp {

// What went up: the stream as text. Early bytes are placed first and counted
// when they are delivered.
struct RecordingUpper {
  uint32_t OnBytes(SeqNum at, std::span<const uint8_t> bytes,
                   const ReceivedFrame& frame) {
    URNIC_CHECK(at == first + static_cast<uint32_t>(stream.size()));
    const size_t taken = std::min(bytes.size(), room);
    stream.append(bytes.begin(), bytes.begin() + taken);
    buffers.insert(frame.buffer);
    room -= taken;
    return static_cast<uint32_t>(taken);
  }

  SeqNum first;
  std::string stream;
  size_t room = SIZE_MAX;
  std::set<void*> buffers;
};

struct EarlyUpper : RecordingUpper {
  bool OnEarlyBytes(SeqNum at, std::span<const uint8_t> bytes,
                    const ReceivedFrame&) {
    if (!take) return false;
    const auto offset = static_cast<size_t>(at - first);
    if (placed.size() < offset + bytes.size()) {
      placed.resize(offset + bytes.size());
    }
    std::copy(bytes.begin(), bytes.end(), placed.begin() + offset);
    return true;
  }
  void OnEarlyDelivered(SeqNum at, uint32_t bytes) {
    URNIC_CHECK(at == first + static_cast<uint32_t>(stream.size()));
    stream += placed.substr(stream.size(), bytes);
    ++early_calls;
  }

  bool take = true;
  std::string placed;
  int early_calls = 0;
};

template <typename Upper = RecordingUpper>
class ReceiverEnd {
 public:
  static constexpr uint16_t kMss = 1000;
  static constexpr uint32_t kWindow = 60000;

  explicit ReceiverEnd(uint32_t irs = 999, uint32_t max_ranges = 256,
                       uint32_t pool_ranges = 512, uint32_t max_frames = 256)
      : pool(pool_ranges), receiver(&pool, &frames, max_frames, max_ranges) {
    config.irs = SeqNum(irs);
    config.window_bytes = kWindow;
    config.mss = kMss;
    config.sack = true;
    Start();
  }
  void Start() {
    receiver.Stop();
    upper = Upper();
    upper.first = config.irs + 1;
    receiver.Start(config, now);
    (void)Ack();
  }

  // A segment with these bytes at this offset in the stream.
  wire::TcpSegment At(int32_t offset, uint8_t flags = wire::kTcpAck) const {
    wire::TcpSegment segment;
    segment.seq = config.irs + 1 + static_cast<uint32_t>(offset);
    segment.flags = flags;
    return segment;
  }
  // Check(), TakeTimestamp() and OnData(); the frame is gone afterwards, unless
  // it is kept.
  RxVerdict Give(wire::TcpSegment segment, std::string_view bytes) {
    const testing::FrameBytes data(bytes.begin(), bytes.end());
    return frames.Give(data, [&](const ReceivedFrame& frame) {
      segment.payload = frame.bytes;
      const RxVerdict verdict = receiver.Check(segment, now);
      if (verdict != RxVerdict::kAccept) return verdict;
      receiver.TakeTimestamp(segment, now);
      const RxVerdict result = receiver.OnData(segment, frame, now, upper);
      receiver.ReleaseDelivered();
      return result;
    });
  }
  RxVerdict Give(int32_t offset, std::string_view bytes,
                 uint8_t flags = wire::kTcpAck) {
    return Give(At(offset, flags), bytes);
  }
  wire::TcpFields Ack(uint32_t option_room = wire::kTcpMaxOptionBytes) {
    wire::TcpFields fields;
    receiver.WriteAck(fields, option_room);
    return fields;
  }
  // The blocks of an acknowledgement, as offsets in the stream.
  std::vector<std::pair<int32_t, int32_t>> Sacks(
      uint32_t option_room = wire::kTcpMaxOptionBytes) {
    std::vector<std::pair<int32_t, int32_t>> list;
    const SeqNum first = config.irs + 1;
    const wire::TcpFields ack = Ack(option_room);
    for (const wire::SackBlock& block : ack.options.sacks()) {
      list.emplace_back(block.begin - first, block.end - first);
    }
    return list;
  }
  int32_t next() const { return receiver.next() - (config.irs + 1); }

  ReceiverConfig config;
  Time now = Time::FromNs(1000000000);
  testing::HostFrames frames;
  RangePool pool;
  Upper upper;
  Receiver receiver;
};

}  // namespace urnic::tcp
