#pragma once

// Where the parts of an FPDU are in the stream: length field, markers, ULPDU,
// pad and CRC. Shared by the side that builds FPDUs and the side that parses
// them.

#include <algorithm>
#include <cstdint>
#include <span>

#include "transport/wire/mpa.h"

namespace urnic::mpa {

inline constexpr uint32_t kMarkerBytes = sizeof(wire::MpaMarker);
inline constexpr uint32_t kHeaderBytes = sizeof(wire::FpduHeader);
// Data bytes from one marker to the next.
inline constexpr uint32_t kMarkerGap = wire::kMarkerSpacing - kMarkerBytes;

// An offset "on the wire" counts every byte of the FPDU; an offset "of the
// data" leaves the markers out. Both start at 0.
struct FpduShape {
  uint32_t ulpdu_bytes = 0;
  // The position of the FPDU's first byte in the stream, modulo 512. The stream
  // begins behind the MPA request or reply. Without markers it has no effect.
  uint32_t phase = 0;
  bool markers = false;

  uint32_t data_bytes() const { return wire::FpduBytes(ulpdu_bytes); }
  uint32_t wire_bytes() const {
    return data_bytes() + kMarkerBytes * marker_count();
  }
  //= RFC 5044 4.3: a marker between two FPDUs belongs to the second
  uint32_t marker_count() const {
    if (!markers || data_bytes() <= first_marker()) return 0;
    return (data_bytes() - first_marker() + kMarkerGap - 1) / kMarkerGap;
  }
  // The offset of the first marker on the wire, if there is one.
  uint32_t first_marker() const {
    return (wire::kMarkerSpacing - phase) % wire::kMarkerSpacing;
  }
  // The offset of the length field on the wire.
  uint32_t header_offset() const {
    return markers && phase == 0 ? kMarkerBytes : 0;
  }
  uint32_t phase_after() const {
    return (phase + wire_bytes()) % wire::kMarkerSpacing;
  }
  bool IsMarker(uint32_t offset) const {
    return markers && (phase + offset) % wire::kMarkerSpacing < kMarkerBytes;
  }
  // The number of bytes from this one up to the next marker.
  // REQUIRES: !IsMarker(offset)
  uint32_t BytesToMarker(uint32_t offset) const {
    if (!markers) return UINT32_MAX;
    return wire::kMarkerSpacing - (phase + offset) % wire::kMarkerSpacing;
  }
  // What the marker at this offset says.
  //= RFC 5044 4.2: a marker states the distance from the FPDU's length field to
  //= itself, or 0 if it is directly before that field
  uint32_t MarkerDistance(uint32_t offset) const {
    return offset == 0 ? 0 : offset - header_offset();
  }
};

// With markers, the distance of each of them fits into its 16 bits.
inline constexpr uint32_t kMaxMulpdu = 64768;

// The longest ULPDU whose FPDU fits into `emss` bytes, in any phase.
//= RFC 5044 4.5: the MULPDU is the EMSS less length field, CRC, EMSS mod 4, and
//= the largest possible number of markers
constexpr uint32_t Mulpdu(uint32_t emss, bool markers) {
  const uint32_t most_markers =
      markers ? (emss + wire::kMarkerSpacing - 1) / wire::kMarkerSpacing : 0;
  const uint32_t overhead = kHeaderBytes + wire::kFpduCrcBytes + emss % 4 +
                            kMarkerBytes * most_markers;
  return emss <= overhead ? 0 : std::min(emss - overhead, kMaxMulpdu);
}

}  // namespace urnic::mpa
