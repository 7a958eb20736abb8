#pragma once

// How much of everything the iWARP connections of an engine may use.

#include <cstdint>

namespace urnic {

// Memory that is given as a number of pieces is reserved when the engine begins
// to serve iWARP, and is shared by all connections.
struct ConnectionLimits {
  uint32_t max_connections = 1u << 16;
  // Handshakes at a time; from half of it on, SYN cookies are used.
  uint32_t half_open = 4096;
  uint32_t time_wait = 1u << 14;
  // Blocks of 2 KB, each for 64 unacknowledged segments. An idle connection has
  // none.
  uint32_t segment_blocks = 1u << 13;
  // Parts of the streams that have arrived behind a hole.
  uint32_t ranges = 1u << 14;
  // FPDUs whose payload was placed behind a hole; 32 bytes each.
  uint32_t early_fpdus = 1u << 14;
  // Parts of FPDUs that have not arrived completely.
  uint32_t held_pieces = 1u << 14;
  // Copies of FPDUs until they are acknowledged, of one packet each: of all
  // connections, and of each one. The second is a power of two; it limits the
  // answers to reads that are under way.
  uint32_t kept_fpdus = 1u << 13;
  uint32_t kept_per_connection = 128;
  // The receive window of a connection, in bytes. Custody may limit it further
  // (tcp::ConnectionConfig::window()): with an MTU of 1500 to 1.5 MB, with 9000
  // to 9 MB, which is 10 Gb/s over 7 ms.
  uint32_t window_bytes = 1u << 24;
  // Acknowledgements that challenge segments that may be forged.
  uint32_t challenges_per_second = 1000;
};

}  // namespace urnic
