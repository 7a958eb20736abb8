#pragma once

// What goes into an endpoint, and what comes out of it.

#include <cstdint>

#include "transport/base/time.h"

namespace urnic::rud::upper {

// Packets of a unit, at most. A unit is one transfer of the adapter, and an
// operation consists of units. Document C: 8 to 16.
inline constexpr uint32_t kUnitPackets = 16;
// What each link must be able to carry: control messages need it.
inline constexpr uint32_t kLeastPacketBytes = 64;
inline constexpr uint32_t kMaxNics = 8;
inline constexpr uint32_t kMaxPaths = 8;  // between two windows

enum class Status : uint8_t {
  kOk = 0,
  kTryAgain,      // too many outstanding operations: Poll()
  kTooLong,       // more than the peer can assemble
  kUnknownPeer,   // no peer has this number
  kBadLocal,      // we may not access our memory; the window failed
  kRefused,       // we may not access the peer's memory
  kWindowFailed,  // the windows of all our NICs have failed
  kPeerLost,      // it has ended, or no path worked for too long
  kCanceled,      // the peer was removed
  kBadRequest,    // the RNIC refuses the command
};

enum class EventType : uint8_t {
  kDone,     // an operation has ended, with its status
  kMessage,  // a message from a peer
};

struct Event {
  EventType type = EventType::kDone;
  Status status = Status::kOk;
  uint32_t peer = 0;
  uint64_t user = 0;   // done: as given to the operation
  uint64_t bytes = 0;  // of the operation, or of the message
  // Message: valid until the next Poll(), or until the peer is removed.
  const uint8_t* data = nullptr;
};

struct EndpointConfig {
  uint32_t operations = 4096;  // at a time; 1 to 2^20
  // UDP flows between two windows, 1 to kMaxPaths.
  uint32_t paths = 4;
  // Contexts that we ask each peer for, and that we grant to each at most. A
  // unit in flight needs one, and so does each pair of windows.
  uint32_t lanes = 64;
  uint32_t most_lanes = 256;
  // Memory for partial messages of one peer.
  uint64_t reassembly_bytes = 16u << 20;
  uint32_t open_messages = 64;  // partial messages of one peer
  // Limit of the congestion window, in packets: on a short path, and on any
  // path.
  uint32_t quiet_packets = 256;
  uint32_t most_packets = 8192;
  // A unit never times out earlier than this.
  Duration min_time_out = Duration::Milliseconds(1);
  Duration max_time_out = Duration::Seconds(1);
  // Time-out while the round trip of a path is unknown.
  Duration first_time_out = Duration::Milliseconds(10);
  // A path on which units time out for this long is dead.
  Duration dead_after = Duration::Milliseconds(50);
  // A peer without a living path for this long is lost.
  Duration lost_after = Duration::Seconds(30);
};

}  // namespace urnic::rud::upper
