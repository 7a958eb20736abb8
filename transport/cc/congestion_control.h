#pragma once

// The seam between a transport and its congestion control. A transport reports
// the fate of its packets. It gets back how many may be under way (a window)
// and when the next one may leave (a pacing time).
//
// The window counts packets, for three reasons. The buffers of a path, the ring
// of a port and a go-back-N repair count packets, too. A read reserves the
// packets of its answer before their sizes are known. And an RC requester can
// compare the window with a distance of PSNs without further bookkeeping. A
// window below one packet is expressed as a window of one with a pacing time.
//
// Values and plain structs: nothing here reads a clock, allocates or waits.
// Thread: the thread of the flow (the token holder).

#include <concepts>
#include <cstdint>

#include "transport/base/time.h"
#include "transport/cc/pacer.h"

namespace urnic::cc {

// The information in an acknowledgement that has moved the flow forward.
struct AckSample {
  Time now;
  // The time from a packet that was sent once (Karn's rule) to its
  // acknowledgement, including all queues in between. Zero: this
  // acknowledgement measured nothing.
  Duration round_trip;
  uint32_t packets = 0;  // newly acknowledged
  uint32_t bytes = 0;    // their payload
  // A packet with our data, or with data that we have requested, was marked
  // "congestion experienced".
  bool marked = false;
  // Everything that was under way when the last round began is acknowledged, so
  // the sender's decisions at that time have had their effect.
  bool ends_round = false;
  //= RFC 7661 4: the window was not full in this round nor in the one before:
  //= its size says nothing about the path
  bool app_limited = false;
};

// An algorithm: a plain struct, one for each flow.
template <typename T>
concept CongestionControl = requires(T& cc, const T& view,
                                     const AckSample& sample, Time now) {
  cc.OnAck(sample);
  // The peer reports packets as missing; they will be resent.
  cc.OnLoss(now);
  // Nothing was acknowledged before the time-out; everything is resent.
  cc.OnRto(now);
  // The last OnLoss() or OnRto() was a mistake: packets that were thought lost
  // have been acknowledged before they were resent.
  cc.OnUndo();
  // The peer, or the path, reports that our packets were marked (a CNP).
  cc.OnCnp(now);
  // The number of packets that may be under way; at least 1.
  { view.window() } -> std::same_as<uint32_t>;
  // The latest of the samples; zero: none yet.
  { (view.round_trip) } -> std::same_as<const Duration&>;
  // The algorithm sets the pacer's rate; the transport obeys its time.
  { (cc.pacer) } -> std::same_as<Pacer&>;
};

}  // namespace urnic::cc
