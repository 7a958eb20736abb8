#pragma once

// The items of a log of inputs (ras/inputs) for a queue pair of iWARP, in
// addition to those of all transports (transport/work/inputs.h): the calls of
// its connection's endpoint (Endpoint) and of its core (rdmap::Qp), in order,
// and the state of the pools that they share with others.
//
// A segment of the log begins with an image of both, and so does a connection:
// the calls that request and accept it are not in the log. Received segments
// are logged as a whole, because MPA reads each byte. The program's memory that
// is sent is not logged, because nothing depends on it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "transport/iwarp/qp/endpoint.h"
#include "transport/iwarp/tcp/four_tuple.h"
#include "transport/wire/ddp.h"
#include "transport/wire/tcp.h"
#include "transport/work/inputs.h"

namespace urnic::iwarp {

// The kinds of items, and their bodies. After the name: `small`, `medium`,
// `large`. The body of WorkInput::kImage: BeginNow, and the image (image.h).
enum class Input : uint8_t {
  // --- What a call reads ---
  // PoolsNow, before the call: others have changed it.
  kPools = static_cast<uint8_t>(WorkInput::kOfTransport),
  // --- Calls: CallNow ---
  kSegment,  // small: 1: congestion experienced; CallNow and the segment,
             // from the header of TCP on
  kSettle,
  kTransmit,  // large: room
  kWrite,     // medium: which segment of the last kTransmit
  kTimer,
  kOutage,
  kTooBig,   // large: the MTU; QuotedNow
  kLinkMtu,  // large: the MTU
  kOnlyAckWaits,
  kTakeEvent,  // small: Event; only if there is one
  kDisconnect,
  kAbort,
  kDetach,
  kParted,    // the queue pair has no connection any more
  kModify,    // small: the state; of the core
  kSettleQp,  // of the core
  // --- What came of it ---
  kSent,      // small: ECT; large: bytes; SentNow, and the header of TCP
  kHead,      // of kWrite: the bytes that do not depend on memory
  kNoMemory,  // large: of the reads of memory, the one that failed
  // In the middle of a received segment: earlier faults are reported, and its
  // completions so far are written. large: how many receives it had completed.
  kDeliver,
};

// The state of the engine's pools, as an endpoint sees it.
struct PoolsNow {
  PoolsNow() = default;
  PoolsNow(const Endpoint& endpoint, Time now) {
    const EndpointPools& pools = endpoint.pools();
    const auto left = pools.pieces->LeftFor(endpoint.delimiter());
    parts = left.parts;
    reserve_taken = left.reserve_taken ? 1 : 0;
    ranges = pools.ranges->free_count();
    challenges = pools.challenges->LeftAt(now);
    frames = pools.frames->free();
    fpdus = pools.fpdus->free();
    early = pools.early == nullptr ? 0 : pools.early->free_count();
  }
  friend bool operator==(const PoolsNow&, const PoolsNow&) = default;

  uint32_t ranges = 0;
  uint32_t parts = 0;
  uint32_t reserve_taken = 0;
  uint32_t challenges = 0;
  uint32_t frames = 0;
  uint32_t fpdus = 0;
  uint32_t early = 0;
};

struct BeginNow {
  CallNow call;
  uint32_t sq_end = 0;        // of the requests that follow
  uint32_t receive_head = 0;  // of its own ring
  // Of a connection.
  uint32_t kept_limit = 0;
  tcp::FourTuple tuple = {};
};

struct QuotedNow {
  CallNow call;
  uint32_t seq = 0;
};

struct SegmentNow {
  CallNow call;
  uint8_t header[wire::kTcpMaxHeaderBytes] = {};
};

struct SentNow {
  uint64_t source = 0;
  uint32_t offset = 0;
  uint32_t header_bytes = 0;
  uint8_t header[wire::kTcpMaxHeaderBytes] = {};
};

inline constexpr uint32_t kMaxHeadBytes = 80;  // an atomic request is shorter

// How many bytes at the beginning of a segment's payload do not depend on the
// program's memory. In a DDP segment, data follow the header; the messages of
// the other queues have no data. 0 if there may be markers.
inline uint32_t HeadBytes(const Endpoint& endpoint, const tcp::TcpSlot& slot,
                          std::span<const uint8_t> payload) {
  constexpr uint32_t kLength = 2;
  const SetUp& set_up = endpoint.set_up();
  const bool markers = set_up.agreed() && set_up.agreement().send_markers;
  if (slot.offset != 0 || markers) return 0;
  uint32_t bytes = kLength + sizeof(wire::DdpTagged);
  wire::DdpUntagged header;
  if (payload.size() >= kLength + sizeof(header) &&
      (payload[kLength] & wire::kDdpTagged) == 0) {
    std::memcpy(&header, payload.data() + kLength, sizeof(header));
    bytes = kLength + sizeof(header);
    if (header.queue.value() != wire::kSendQueue) bytes = kMaxHeadBytes;
  }
  return std::min(bytes, static_cast<uint32_t>(payload.size()));
}

inline constexpr uint32_t kInputLayout =
    InputLayout(1001, {sizeof(PoolsNow), sizeof(BeginNow), sizeof(SegmentNow),
                       sizeof(SentNow), static_cast<size_t>(Input::kDeliver)});

}  // namespace urnic::iwarp
