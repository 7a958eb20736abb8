#pragma once

// QP1, the general services interface: management datagrams (MADs) in and out
// of an engine, each class with its own handler. IBTA 13, annex A17.9.

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "datapath/engine/transmit_queue.h"
#include "ras/metrics/counters.h"
#include "ras/metrics/rx_verdict.h"
#include "transport/base/psn.h"
#include "transport/base/time.h"
#include "transport/net/host.h"
#include "transport/wire/frame.h"
#include "transport/wire/mad.h"
#include "transport/work/types.h"

namespace urnic {

// Where a MAD came from, and the way back.
struct MadSource {
  uint32_t src_qpn = 0;
  uint16_t pkey = 0;  // ours, the partner of what it bore
  net::Path reply;
};

// Called by the holder of the engine's token, in the middle of a burst: it may
// send MADs (GsiPort::Send), but neither waits nor takes a ControlScope.
class GsiHandler {
 public:
  // `mad` has wire::kMadBytes and is valid during the call only. The verdict is
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

// Token holder only.
class GsiPort {
 public:
  // MADs that wait for room; more are lost, as on the wire: their senders have
  // timers, of seconds.
  static constexpr size_t kWaitingMax = 8192;

  // All outlive it. `pkeys`: the P_Key table.
  GsiPort(net::Host* host, TransmitQueue* tx, EngineCounters* counters,
          std::vector<uint16_t> pkeys)
      : host_(host), tx_(tx), counters_(counters), pkeys_(std::move(pkeys)) {}

  // From now on the handler gets the MADs of this class (IBTA 13.4.4), instead
  // of the one before; null: nobody does.
  void Serve(uint8_t management_class, GsiHandler* handler);

  // A datagram for QP1 and one of our addresses.
  RxVerdict OnPacket(const wire::FrameView& view, const RxPacket& packet,
                     Time now);

  // Sends `mad` (256 bytes) to QP1 at the end of the path, as soon as the port
  // has room.
  void Send(const net::Path& path, uint16_t pkey, std::span<const uint8_t> mad);
  bool waiting() const { return !waiting_.empty(); }
  void SendWaiting();

  Time NextDeadline() const;
  void OnTimer(Time now);
  bool IsQpnBusy(uint32_t qpn) const;

 private:
  struct Served {
    uint8_t management_class;
    GsiHandler* handler;
  };
  struct Waiting {
    wire::HeaderTemplate headers;
    bool loopback = false;
    uint16_t pkey = 0;
    std::array<uint8_t, wire::kMadBytes> mad = {};
  };

  // False: the port has no room.
  bool TrySend(const Waiting& waiting);

  net::Host* const host_;
  TransmitQueue* const tx_;
  EngineCounters* const counters_;
  const std::vector<uint16_t> pkeys_;
  std::vector<Served> served_;
  std::deque<Waiting> waiting_;
  Psn psn_;
};

}  // namespace urnic
