#pragma once

// Who gets a class of the management datagrams (MADs) that come to QP1, the
// general services interface (IBTA 13.5.1). QP1 itself is the engine's
// (datapath/engine/gsi.h), or a test's.

#include <cstdint>
#include <span>

#include "ras/metrics/rx_verdict.h"
#include "transport/base/ids.h"
#include "transport/base/time.h"
#include "transport/net/path.h"

namespace urnic::net {

// Called by the holder of the engine's token, perhaps in the middle of a burst:
// nothing here waits or enters an engine, but it may send MADs.
class MadHandler {
 public:
  // A MAD of 256 bytes, valid during the call only, and where an answer goes:
  // `local` is ours, and the P_Key is ours, the partner of what it bore. The
  // verdict is counted.
  virtual RxVerdict OnMad(std::span<const uint8_t> mad, const PathQuery& from,
                          Time now) = 0;
  // When OnTimer() is due. Asked after each of these calls and whenever a
  // control call has had the token.
  virtual Time NextDeadline() const = 0;
  virtual void OnTimer(Time now) = 0;
  // Packets for this queue pair number may still be under way, or its peer
  // still know it: no new queue pair gets it.
  virtual bool IsQpnBusy(Qpn qpn) const = 0;

 protected:
  ~MadHandler() = default;
};

}  // namespace urnic::net
