#pragma once

// What the sender exchanges with the layer above and with the connection.
//
// TCP does not store the bytes that it sends. The layer above cuts the stream
// into chunks (one FPDU, or one MPA frame) and can build the bytes of a chunk
// again until the chunk is acknowledged.

#include <cstdint>

#include "transport/base/seq_num.h"

namespace urnic::tcp {

struct Chunk {
  uint64_t source = 0;  // identifies how to build the bytes; opaque to TCP
  uint32_t bytes = 0;   // 0: nothing to send
};

// Whether a segment may begin at this byte of a chunk: at the first byte, but
// never at another multiple of four. So chunks whose lengths are multiples of
// four, like FPDUs, can be recognized behind a hole: a segment begins with a
// chunk if and only if its offset in the stream is a multiple of four
// (docs/design/0010-iwarp.md, choice 4).
constexpr bool MayBeginSegment(uint32_t offset) {
  return offset == 0 || offset % 4 != 0;
}

// Bytes [offset, offset + bytes) of the chunk `source`, to be sent now.
struct SegmentToSend {
  SeqNum seq;
  uint32_t bytes = 0;  // 0: a FIN, or a window probe
  uint64_t source = 0;
  uint32_t offset = 0;
  bool is_retransmission = false;
  bool push = false;
  bool fin = false;
  //= RFC 3168 6.1.2: the first segment of new data after a reduction carries
  //= CWR
  bool cwr = false;
  // Begins one byte earlier in the chunk.
  void RepeatByteBefore() {
    seq = seq + UINT32_MAX;
    --offset;
    ++bytes;
  }
  //= RFC 3168 6.1.5: a retransmitted segment is sent without ECT
  bool may_be_ect() const { return bytes != 0 && !is_retransmission; }
};

}  // namespace urnic::tcp
