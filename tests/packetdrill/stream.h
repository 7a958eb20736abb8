#pragma once

// The layer above a connection: a byte stream without contents, with as much
// room as it needs.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <span>

#include "transport/base/check.h"
#include "transport/base/frame_keeper.h"
#include "transport/base/seq_num.h"
#include "transport/iwarp/tcp/chunk.h"

namespace urnic::packetdrill {

struct Stream {
  uint64_t written = 0;    // by the program
  uint64_t cut = 0;        // of it, handed to TCP
  uint64_t acked = 0;      // of it, acknowledged
  uint64_t unread = 0;     // delivered, and not read by the program yet
  bool orphaned = false;   // the program has closed its socket
  bool late_data = false;  // data have arrived since
  std::deque<tcp::Chunk> under_way;

  // For tcp::Connection.
  tcp::Chunk NextChunk(uint32_t max_bytes) {
    const auto bytes =
        static_cast<uint32_t>(std::min<uint64_t>(written - cut, max_bytes));
    const tcp::Chunk chunk = {cut, bytes};
    if (bytes != 0) under_way.push_back(chunk);
    cut += bytes;
    return chunk;
  }
  void OnChunkAcked(uint64_t source) {
    URNIC_CHECK(!under_way.empty() && under_way.front().source == source);
    acked = source + under_way.front().bytes;
    under_way.pop_front();
  }
  uint32_t OnBytes(SeqNum, std::span<const uint8_t> bytes,
                   const ReceivedFrame&) {
    unread += bytes.size();
    late_data |= orphaned;
    return static_cast<uint32_t>(bytes.size());
  }
};

}  // namespace urnic::packetdrill
