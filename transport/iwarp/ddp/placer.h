#pragma once

// Finds the memory for the payload of a received segment, or the reason why the
// segment is refused.

#include <cstdint>

#include "transport/base/fields.h"
#include "transport/base/ids.h"
#include "transport/iwarp/ddp/received_segment.h"
#include "transport/iwarp/ddp/stream_error.h"
#include "transport/mem/mr_table.h"

namespace urnic::ddp {

// The receiving end of an untagged queue. Segments arrive in the order of the
// stream, so only one message sequence number and one offset are right.
class UntaggedQueue {
 public:
  //= RFC 5041 5.3: untagged messages are delivered in order, one after another
  [[nodiscard]] StreamError Check(const ReceivedSegment& segment) const {
    if (segment.msn != msn_) return kMsnRange;
    return segment.offset == offset_ ? kNoError : kInvalidOffset;
  }
  // `segment` was accepted.
  void Advance(const ReceivedSegment& segment) {
    offset_ += segment.payload_bytes;
    if (!segment.last()) return;
    offset_ = 0;
    ++msn_;
  }
  uint32_t msn() const { return msn_; }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  uint32_t msn_ = 1;
  uint64_t offset_ = 0;
};

// The stream of a tagged segment.
struct StreamOf {
  uint32_t pd = 0;
  uint32_t qpn = 0;
};

// Translates `bytes` (not 0) at `address`, for an STag that a peer names.
// Errors are those of a tagged segment.
//= RFC 5041 7.1: an STag must be valid and belong to the stream, its buffer
//= must contain the payload, and the offset must not wrap
[[nodiscard]] inline StreamError Locate(const mem::MrTable& mrs,
                                        const StreamOf& stream, uint32_t stag,
                                        uint64_t address, uint32_t bytes,
                                        uint32_t rights, uint64_t& host) {
  const mem::Translation at = mrs.CheckRemote(
      MrKey{stag}, stream.pd, stream.qpn, address, bytes, rights);
  if (__builtin_expect(at.ok(), 1)) {
    host = at.host;
    return kNoError;
  }
  switch (at.fault) {
    case mem::MemFault::kRange:
      return address + bytes < address ? kOffsetWrap : kBounds;
    case mem::MemFault::kPd:
      return kStagOfOtherStream;
    case mem::MemFault::kRights:
      return kAccessRights;
    default:
      return kInvalidStag;
  }
}

// The corresponding error for a source that a request names, for which RDMAP
// has its own codes.
//= RFC 5040 4.8: an error of a data source's STag is an error of RDMAP, not of
//= DDP
inline StreamError AsSourceError(const StreamError& error) {
  if (error == kInvalidStag) return kSourceStag;
  if (error == kBounds) return kSourceBounds;
  if (error == kStagOfOtherStream) return kSourceOfOtherStream;
  if (error == kOffsetWrap) return kSourceWrap;
  return error;
}

}  // namespace urnic::ddp
