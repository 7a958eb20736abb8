#pragma once

// A received DDP segment: its header in host order, and a view of its payload.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "transport/iwarp/ddp/stream_error.h"
#include "transport/wire/ddp.h"

namespace urnic::ddp {

// The bytes of one ULPDU, usually in one piece.
using Pieces = std::span<const std::span<const uint8_t>>;

struct ReceivedSegment {
  wire::DdpControl control = {};
  uint32_t stag = 0;    // untagged: the field reserved for the upper layer
  uint32_t queue = 0;   // untagged
  uint32_t msn = 0;     // untagged
  uint64_t offset = 0;  // tagged: an address; untagged: in the message
  uint32_t header_bytes = 0;  // 0: the ULPDU has no full header
  uint32_t payload_bytes = 0;
  // The payload was already placed, when the segment arrived behind a hole of
  // the stream. Now it is the segment's turn, and only its header is here.
  bool placed = false;
  Pieces pieces;

  bool tagged() const { return control.tagged(); }
  bool last() const { return control.last(); }
  uint32_t ulpdu_bytes() const { return header_bytes + payload_bytes; }

  // Calls emit(data, bytes) for each contiguous part of [begin, begin + bytes)
  // of the payload, which contains it.
  template <typename Emit>
  void ForPayload(uint32_t begin, uint32_t bytes, Emit&& emit) const {
    ForUlpdu(header_bytes + begin, bytes, emit);
  }
  // The same, with no part longer than `limit`, which is not 0.
  template <typename Emit>
  void ForPayloadParts(uint32_t limit, Emit&& emit) const {
    uint32_t at = 0;
    ForPayload(0, payload_bytes, [&](const uint8_t* data, uint32_t bytes) {
      while (bytes > 0) {
        const uint32_t part = std::min(bytes, limit);
        emit(data, part, at);
        data += part;
        bytes -= part;
        at += part;
      }
    });
  }
  // Copies `bytes` from the beginning of the payload or of the whole ULPDU.
  void CopyPayload(uint8_t* out, uint32_t bytes) const {
    CopyFrom(header_bytes, out, bytes);
  }
  void CopyUlpdu(uint8_t* out, uint32_t bytes) const {
    CopyFrom(0, out, bytes);
  }

 private:
  template <typename Emit>
  void ForUlpdu(uint32_t begin, uint32_t bytes, Emit&& emit) const {
    for (const std::span<const uint8_t> piece : pieces) {
      if (bytes == 0) return;
      if (begin >= piece.size()) {
        begin -= static_cast<uint32_t>(piece.size());
        continue;
      }
      const uint32_t part =
          std::min(bytes, static_cast<uint32_t>(piece.size()) - begin);
      emit(piece.data() + begin, part);
      bytes -= part;
      begin = 0;
    }
  }
  void CopyFrom(uint32_t begin, uint8_t* out, uint32_t bytes) const {
    ForUlpdu(begin, bytes, [&out](const uint8_t* data, uint32_t part) {
      std::memcpy(out, data, part);
      out += part;
    });
  }
};

// Reads the header of a ULPDU, whose bytes are in `pieces`. Errors: another
// version of DDP; kDdpCatastrophic: the header is incomplete, and only its
// complete fields are set in `out`.
[[nodiscard]] StreamError ParseSegment(Pieces pieces, ReceivedSegment& out);

}  // namespace urnic::ddp
