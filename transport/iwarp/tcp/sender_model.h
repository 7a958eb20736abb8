#pragma once

// Shared by the tests and the fuzzer of the sender: a layer above, a congestion
// control that the test drives, and a check of the records.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "transport/base/check.h"
#include "transport/iwarp/tcp/sender.h"

namespace urnic::tcp {

// A window that only the test changes, except that losses halve it.
struct TestWindow {
  uint32_t window() const { return packets; }
  uint32_t ssthresh() const { return threshold; }
  void OnAck(const cc::AckSample& s) {
    sample = s;
    acked_bytes += s.bytes;
    marks += s.marked;
  }
  void OnLoss(Time, uint32_t = 0) {
    ++losses;
    before = packets;
    packets = threshold = std::max(packets / 2, 2u);
  }
  void OnRto(Time, uint32_t = 0) {
    ++timeouts;
    before = packets;
    threshold = std::max(packets / 2, 2u);
    packets = 1;
  }
  void OnUndo() {
    ++undone;
    packets = std::max(packets, before);
  }
  void OnCnp(Time) {}
  void SetWindow(uint32_t n) { packets = n; }
  void OnRecovered(Time, uint32_t n) {
    ++recovered;
    resent = n;
    packets = threshold;
  }
  void OnRestart(Time) { ++restarts; }
  void SetMss(uint32_t) {}

  cc::Pacer pacer;
  Duration round_trip;
  cc::AckSample sample;
  uint64_t acked_bytes = 0;
  uint32_t packets = 10;
  uint32_t threshold = 1u << 20;
  uint32_t before = 0;
  uint32_t marks = 0;
  uint32_t losses = 0;
  uint32_t timeouts = 0;
  uint32_t undone = 0;
  uint32_t recovered = 0;
  uint32_t resent = 0;
  uint32_t restarts = 0;
};
static_assert(cc::StreamCongestionControl<TestWindow>);

// The layer above. A chunk's source is its number.
struct TestUpper {
  Chunk NextChunk(uint32_t max_bytes) {
    if (queue.empty()) return Chunk();
    const uint32_t bytes = std::min(queue.front(), max_bytes);
    if (bytes == queue.front()) {
      queue.pop_front();
    } else {
      queue.front() -= bytes;
    }
    starts.push_back(position);
    position += bytes;
    return {starts.size() - 1, bytes};
  }
  void OnChunkAcked(uint64_t source) {
    URNIC_CHECK(source == acked);  // once each, in order
    ++acked;
  }
  void Add(uint32_t chunks, uint32_t bytes) {
    queue.insert(queue.end(), chunks, bytes);
  }

  std::deque<uint32_t> queue;    // bytes; may be cut to the MSS
  std::vector<uint64_t> starts;  // of the chunks, in the stream
  uint64_t position = 0;
  uint64_t acked = 0;
};

// Checks the sums of the scoreboard by a recount.
inline void CheckRecords(const Scoreboard& board, SeqNum una, SeqNum nxt) {
  const SegmentRing& ring = board.ring();
  uint64_t in_flight = 0;
  uint64_t sacked = 0;
  uint32_t sacked_segments = 0;
  uint32_t lost = 0;
  SeqNum at = una;
  for (uint32_t number = ring.first(); number != ring.end(); ++number) {
    const SegmentRecord& record = ring.at(number);
    URNIC_CHECK(record.seq == at);
    URNIC_CHECK(record.seq_bytes() != 0);
    at = record.end();
    switch (record.state) {
      case SegmentRecord::kInFlight:
        in_flight += record.seq_bytes();
        break;
      case SegmentRecord::kLost:
        ++lost;
        break;
      default:
        sacked += record.seq_bytes();
        ++sacked_segments;
    }
  }
  URNIC_CHECK(at == nxt);
  URNIC_CHECK(board.pipe() == in_flight);
  URNIC_CHECK(board.sacked_bytes() == sacked);
  URNIC_CHECK(board.sacked_segments() == sacked_segments);
  URNIC_CHECK(board.lost_segments() == lost);
}

}  // namespace urnic::tcp
