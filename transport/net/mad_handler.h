#pragma once

// The handler of one class of management datagrams (MADs) that come to QP1, the
// general services interface. QP1 itself belongs to the engine
// (datapath/engine/gsi.h) or to a test.

#include <cstdint>
#include <span>

#include "ras/metrics/rx_verdict.h"
#include "transport/base/ids.h"
#include "transport/base/time.h"
#include "transport/net/path.h"

namespace urnic::net {

// Called by the holder of the engine's token, possibly in the middle of a
// burst. A handler must not wait or enter an engine, but it may send MADs.
class MadHandler {
 public:
  // A MAD of 256 bytes, valid only during the call, and the path for an answer.
  // Its `local` is our address. Its P_Key is the entry of our table that
  // matches the P_Key of the MAD. The verdict is counted.
  virtual RxVerdict OnMad(std::span<const uint8_t> mad, const PathQuery& from,
                          Time now) = 0;
  // When OnTimer() is due. Called after each of these calls and after every
  // control call that has held the token.
  virtual Time NextDeadline() const = 0;
  virtual void OnTimer(Time now) = 0;
  // True if packets for this queue pair number may still be under way, or its
  // peer may still know it. Then no new queue pair gets the number.
  virtual bool IsQpnBusy(Qpn qpn) const = 0;

 protected:
  ~MadHandler() = default;
};

}  // namespace urnic::net
