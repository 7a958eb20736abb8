#pragma once

// Proportional rate reduction: how much to send for each acknowledgement in
// fast recovery, so that the flight shrinks evenly to the new window.

#include <algorithm>
#include <cstdint>

namespace urnic::tcp {

struct RateReduction {
  //= RFC 9937 6.1: RecoverFS is the data in flight at the start of recovery
  // `flight`: unacknowledged before the acknowledgement that started recovery,
  // without what had been SACKed before it.
  void Start(uint64_t flight, uint64_t new_window) {
    *this = {.flight = std::max<uint64_t>(flight, 1), .target = new_window};
  }

  // `pipe`: after this acknowledgement. `safe`: it moved SND.UNA, and nothing
  // more is lost.
  void OnAck(uint32_t acked, uint64_t pipe, bool safe, uint32_t mss) {
    //= RFC 9937 6.2: an acknowledgement that delivers nothing allows nothing to
    //= be sent
    if (acked == 0 && out != 0) return;
    delivered += acked;
    uint64_t allowed = 0;
    if (pipe > target) {
      //= RFC 9937 6.2: above ssthresh, what is sent is to what is delivered as
      //= ssthresh is to RecoverFS
      const uint64_t due = (delivered * target + flight - 1) / flight;
      allowed = due - std::min(due, out);
    } else {
      //= RFC 9937 6.2: below ssthresh, as much is sent as is delivered, and one
      //= segment more if recovery makes progress
      allowed = std::max<uint64_t>(delivered - std::min(delivered, out), acked);
      if (safe) allowed += mss;
      allowed = std::min(allowed, target - pipe);
    }
    //= RFC 9937 6.2: the first retransmission of recovery is always sent
    if (out == 0 && allowed < mss) allowed = mss;
    quota = allowed;
  }

  //= RFC 9937 6.3: prr_out counts all bytes that are sent in recovery, new or
  //= resent
  void OnSend(uint32_t bytes) {
    out += bytes;
    quota -= std::min<uint64_t>(quota, bytes);
  }

  uint64_t flight = 1;     // RecoverFS
  uint64_t target = 0;     // ssthresh
  uint64_t delivered = 0;  // prr_delivered
  uint64_t out = 0;        // prr_out
  uint64_t quota = 0;      // may be sent before the next acknowledgement
};

}  // namespace urnic::tcp
