#pragma once

// How much memory, and how many of each resource, the iWARP connections of an
// engine may use.

#include <cstdint>

namespace urnic {

// All connections share the resources that are counted in pieces. Their memory
// is reserved when the engine begins to serve iWARP.
struct ConnectionLimits {
  uint32_t max_connections = 1u << 16;
  // Handshakes at a time. When half of them are in use, SYN cookies are used.
  uint32_t half_open = 4096;
  uint32_t time_wait = 1u << 14;
  // Blocks of 2 KB, each for 64 unacknowledged segments. An idle connection has
  // none.
  uint32_t segment_blocks = 1u << 13;
  // Ranges of the streams that have arrived behind a gap.
  uint32_t ranges = 1u << 14;
  // FPDUs whose payload was placed behind a gap; 32 bytes each.
  uint32_t early_fpdus = 1u << 14;
  // Received parts of FPDUs that are still incomplete.
  uint32_t held_pieces = 1u << 14;
  // Copies of FPDUs that are kept until they are acknowledged, one packet each:
  // for all connections together, and for each one. kept_per_connection is a
  // power of two; it also limits the read responses in flight.
  uint32_t kept_fpdus = 1u << 13;
  uint32_t kept_per_connection = 128;
  // The receive window of a connection, in bytes. The limit of frames in
  // custody may reduce it (tcp::ConnectionConfig::window()): to 1.5 MB with an
  // MTU of 1500, to 9 MB with 9000. 9 MB are 10 Gb/s over 7 ms.
  uint32_t window_bytes = 1u << 24;
  // Challenge acknowledgements, which answer segments that may be forged.
  uint32_t challenges_per_second = 1000;
};

}  // namespace urnic
