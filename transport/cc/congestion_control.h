#pragma once

// The seam between a transport and its congestion control. A transport tells
// what has become of its packets; it gets back how many may be under way
// (a window) and when the next one may leave (a pacing time).
//
// The window counts packets: that is what the buffers of a path, the ring of a
// port and a go-back-N repair count, a read owns the packets of its answer
// before it knows their bytes, and an RC requester compares it with a distance
// of PSNs without further bookkeeping. A window below one packet is a window of
// one with a pacing time.
//
// Values and plain structs: nothing here reads a clock, allocates or waits.
// Thread: that of the flow (the token holder).

#include <concepts>
#include <cstdint>

#include "transport/base/time.h"
#include "transport/cc/pacer.h"

namespace urnic::cc {

// What an acknowledgement has told, in a flow that it has moved forward.
struct AckSample {
  Time now;
  // From a packet that was sent once (Karn's rule) to its acknowledgement, with
  // all queues in between. Zero: not measured by this one.
  Duration round_trip;
  uint32_t packets = 0;  // newly acknowledged
  uint32_t bytes = 0;    // their payload
  // A packet that carried our data, or brought the data that we have asked for,
  // was marked "congestion experienced" (RFC 3168).
  bool marked = false;
  // All that was under way when the last round began is acknowledged: what the
  // sender decided then has had its effect.
  bool ends_round = false;
  // The window was not full in this round nor in the one before: its size says
  // nothing about the path (RFC 7661).
  bool app_limited = false;
};

// An algorithm: a plain struct that each flow has one of.
template <typename T>
concept CongestionControl = requires(T& cc, const T& view,
                                     const AckSample& sample, Time now) {
  cc.OnAck(sample);
  // The peer names packets as missing, which will be sent again.
  cc.OnLoss(now);
  // Nothing was acknowledged for the time-out, and all is sent again.
  cc.OnRto(now);
  // The last OnLoss() or OnRto() was a mistake: what was thought lost has
  // been acknowledged before it was sent again.
  cc.OnUndo();
  // The peer, or the path, says that our packets were marked (a CNP).
  cc.OnCnp(now);
  // Packets that may be under way; at least 1.
  { view.window() } -> std::same_as<uint32_t>;
  // Whose rate the algorithm sets, and whose time the transport keeps.
  { (cc.pacer) } -> std::same_as<Pacer&>;
};

}  // namespace urnic::cc
