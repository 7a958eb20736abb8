#pragma once

// QP1, the general services interface: management datagrams (MADs) in and out
// of an engine, for the connection manager. IBTA 13, annex A17.9.

#include <cstdint>
#include <span>

#include "datapath/path.h"
#include "ras/metrics/rx_verdict.h"
#include "transport/base/time.h"

namespace urnic {

// Where a MAD came from, and the way back.
struct MadSource {
  uint32_t src_qpn = 0;
  uint16_t pkey = 0;  // ours, the partner of what it bore
  Path reply;
};

// Called by the holder of the engine's token, in the middle of a burst: it may
// send MADs (Engine::SendMad), but neither waits nor takes a ControlScope.
class GsiHandler {
 public:
  // `mad` has wire::kMadBytes and goes when the call returns. The verdict is
  // counted.
  virtual RxVerdict OnMad(std::span<const uint8_t> mad, const MadSource& from,
                          Time now) = 0;
  // When OnTimer() is due. Asked after each of these calls and at the end of
  // each ControlScope.
  virtual Time NextDeadline() const = 0;
  virtual void OnTimer(Time now) = 0;
  // Packets for this queue pair number may still be under way, or its peer
  // still know it: no new queue pair gets it.
  virtual bool IsQpnBusy(uint32_t qpn) const = 0;

 protected:
  ~GsiHandler() = default;
};

}  // namespace urnic
