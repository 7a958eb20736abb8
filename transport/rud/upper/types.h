#pragma once

// What goes into an endpoint and comes out of it.

#include <cstdint>

#include "transport/base/time.h"

namespace urnic::rud::upper {

// Packets of a unit, which is a transfer of the adapter: a message is as many
// units as it needs. Document C: 8 to 16.
inline constexpr uint32_t kUnitPackets = 16;
// What each link must be able to carry, for control messages.
inline constexpr uint32_t kLeastPacketBytes = 64;
inline constexpr uint32_t kMaxNics = 8;
inline constexpr uint32_t kMaxPaths = 8;  // between two windows

enum class Status : uint8_t {
  kOk = 0,
  kTryAgain,      // too many operations wait: Poll()
  kTooLong,       // more than the peer can put together
  kUnknownPeer,   // no peer has this number
  kBadLocal,      // memory of ours that we may not access; the window failed
  kRefused,       // memory of the peer that we may not access
  kWindowFailed,  // of all our NICs, before or during the operation
  kPeerLost,      // no path to it worked for too long
  kCanceled,      // the peer was removed
  kBadRequest,    // the RNIC does not execute the command
};

enum class EventType : uint8_t {
  kDone,     // an operation has ended, with its status
  kMessage,  // of a peer
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
  // Between two windows: numbers of UDP flows. 1 to kMaxPaths
  uint32_t paths = 4;
  // Contexts that we ask of each peer, and grant to each. One for each unit
  // that is under way, and one for each pair of windows.
  uint32_t lanes = 64;
  uint32_t most_lanes = 256;
  // Memory for messages of one peer that need more than a packet.
  uint64_t reassembly_bytes = 16u << 20;
  uint32_t open_messages = 64;  // of these, at a time
  // The window of a path, in packets: on a short path, and on any.
  uint32_t quiet_packets = 256;
  uint32_t most_packets = 8192;
  // A unit is not given up before this, whatever the path has done before.
  Duration min_time_out = Duration::Milliseconds(1);
  Duration max_time_out = Duration::Seconds(1);
  // While the round trip of a path is not known.
  Duration first_time_out = Duration::Milliseconds(10);
  // A path whose units time out for so long is dead.
  Duration dead_after = Duration::Milliseconds(50);
  // A peer without a living path for so long is lost.
  Duration lost_after = Duration::Seconds(30);
};

}  // namespace urnic::rud::upper
