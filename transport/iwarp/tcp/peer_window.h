#pragma once

// The window that the peer offers: SND.WND, SND.WL1 and SND.WL2.

#include <algorithm>
#include <cstdint>

#include "transport/base/mutation.h"
#include "transport/base/seq_num.h"

namespace urnic::tcp {

struct PeerWindow {
  void Start(SeqNum seq, SeqNum ack, uint32_t window) {
    *this = {.wl1 = seq, .wl2 = ack, .bytes = window, .largest = window};
  }

  //= RFC 9293 3.10.7.4: SND.WL1 and SND.WL2 prevent that an old segment changes
  //= the send window
  // A segment that acknowledges more is not old, even if it is a retransmission
  // with a lower number. It moves SND.UNA, so with the old window the right
  // edge would exceed the peer's offer. Linux does the same. Returns true if
  // the window has changed.
  bool OnAck(SeqNum seq, SeqNum ack, uint32_t window) {
    const bool newer = ack - wl2 > 0;
    const bool older = wl1 - seq > 0 || (wl1 == seq && wl2 - ack > 0);
    if (older && MUTATION(iwarp_keeps_window_of_older_segment, !newer, true))
      return false;
    wl1 = seq;
    wl2 = ack;
    const bool changed = bytes != window;
    bytes = window;
    largest = std::max(largest, window);
    return changed;
  }

  //= RFC 9293 3.8.6: if the peer has shrunk its window, the usable window may
  //= be negative; then no new data are sent
  uint32_t Usable(SeqNum una, SeqNum nxt) const {
    const int64_t left = int64_t{bytes} - (nxt - una);
    return static_cast<uint32_t>(std::max<int64_t>(left, 0));
  }

  SeqNum wl1;
  SeqNum wl2;
  uint32_t bytes = 0;
  uint32_t largest = 0;
};

}  // namespace urnic::tcp
