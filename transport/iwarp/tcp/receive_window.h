#pragma once

// The window that we offer: its right edge never moves back.

#include <algorithm>
#include <cstdint>

#include "transport/base/check.h"
#include "transport/base/fields.h"
#include "transport/base/mutation.h"
#include "transport/base/seq_num.h"
#include "transport/wire/tcp.h"

namespace urnic::tcp {

class ReceiveWindow {
 public:
  //= RFC 7323 2.3: a scaled window has at most 2^30 bytes
  static constexpr uint32_t kMaxBytes = 1u << 30;

  // `next`: the first byte of the stream. The first window was that of a SYN.
  void Start(SeqNum next, uint32_t willing_bytes, uint8_t shift, uint16_t mss) {
    URNIC_CHECK(shift <= wire::kTcpMaxWindowShift && mss > 0);
    shift_ = shift;
    mss_ = mss;
    SetWilling(willing_bytes);
    edge_ = next + OfSyn();
  }
  void SetWilling(uint32_t bytes) {
    willing_ = std::min({bytes, kMaxBytes, uint32_t{UINT16_MAX} << shift_});
  }

  SeqNum right_edge() const { return edge_; }
  uint32_t bytes(SeqNum next) const {
    return static_cast<uint32_t>(edge_ - next);
  }
  //= RFC 7323 2.2: the window field of a SYN is never scaled
  uint16_t OfSyn() const {
    return static_cast<uint16_t>(std::min<uint32_t>(willing_, UINT16_MAX));
  }

  //= RFC 9293 3.8.6.2.2: silly window avoidance: the right edge of the window
  //= moves only when it can move by a full segment or by half of the buffer
  bool MayOpen(SeqNum next) const {
    const uint32_t open = bytes(next);
    return willing_ > open &&
           willing_ - open >= std::min<uint32_t>(willing_ / 2, mss_);
  }

  //= RFC 9293 3.8.6: a receiver does not shrink its window: the right edge does
  //= not move to the left
  //= RFC 7323 2.3: the window field contains the window, shifted right by the
  //= shift count
  // The window field of a segment that acknowledges `next`. It is rounded up if
  // the shift would otherwise reduce an earlier offer.
  uint16_t Offer(SeqNum next) {
    const uint32_t open =
        MUTATION(iwarp_never_opens_window, MayOpen(next), false) ? willing_
                                                                 : bytes(next);
    uint32_t field = open >> shift_;
    if (next + (field << shift_) - edge_ < 0) {
      field = (bytes(next) + (1u << shift_) - 1) >> shift_;
    }
    field = std::min<uint32_t>(field, UINT16_MAX);
    edge_ = Later(edge_, next + (field << shift_));
    return static_cast<uint16_t>(field);
  }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  uint32_t willing_ = 0;
  uint16_t mss_ = 1;
  uint8_t shift_ = 0;
  SeqNum edge_;
};

}  // namespace urnic::tcp
