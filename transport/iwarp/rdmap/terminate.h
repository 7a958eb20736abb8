#pragma once

// The payload of Terminate messages.

#include <cstdint>
#include <span>

#include "transport/iwarp/ddp/received_segment.h"
#include "transport/iwarp/ddp/stream_error.h"
#include "transport/wire/ddp.h"
#include "transport/work/refused_access.h"

namespace urnic::rdmap {

//= RFC 5040 4.8: a Terminate has at most the control field, a length, an
//= untagged DDP header and a read request
inline constexpr uint32_t kMaxTerminateBytes = sizeof(wire::RdmapTerminate) +
                                               2 + sizeof(wire::DdpUntagged) +
                                               sizeof(wire::RdmapReadRequest);

// The contents of a received Terminate.
struct Terminate {
  ddp::StreamError error;
  // The copied part of the segment that caused it.
  bool has_header = false;
  bool has_read_request = false;
  ddp::ReceivedSegment segment;
  uint32_t payload_bytes = 0;  // of that segment; 0: it is not known
  wire::RdmapReadRequest read_request;

  // The refused access, if the copies show it: that of a write or a read.
  RefusedAccess access() const;
};

// Writes the payload of a Terminate into `out` (room for kMaxTerminateBytes)
// and returns its length. `cause`: the segment that was refused, or null.
[[nodiscard]] uint32_t BuildTerminate(const ddp::StreamError& error,
                                      const ddp::ReceivedSegment* cause,
                                      uint8_t* out);

// Reads the payload of a Terminate. False: not even its first four bytes are
// there. A Terminate of Linux siw is understood, too.
[[nodiscard]] bool ParseTerminate(std::span<const uint8_t> payload,
                                  Terminate& out);

}  // namespace urnic::rdmap
