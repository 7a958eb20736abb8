#pragma once

// The interface between a transport and its congestion control. A transport
// reports the fate of its packets. It gets back how many may be in flight (a
// window) and when the next one may leave (a pacing time).
//
// The window counts packets, for three reasons. The buffers of a path, the ring
// of a port and a go-back-N repair count packets, too. A read reserves the
// packets of its response before their sizes are known. And an RC requester can
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
  // Nothing is acknowledged cumulatively: `bytes` arrived behind a gap.
  bool duplicate = false;
  // The part of `bytes` whose packets were marked. Only an algorithm that
  // counts marks (DCTCP) reads it; a transport that cannot tell leaves it 0.
  uint32_t marked_bytes = 0;
  // A packet with our data, or with data that we have requested, was marked
  // "congestion experienced". Classic ECN of TCP repeats its echo until it sees
  // CWR: the sender sets this once, and then sends CWR.
  bool marked = false;
  // Everything that was in flight when the last round began is acknowledged, so
  // the sender's decisions at that time have had their effect.
  bool ends_round = false;
  //= RFC 7661 4: a window that was full neither in this round nor in the one
  //= before says nothing about the path
  bool app_limited = false;
};

// An algorithm: a plain struct, one for each flow.
template <typename T>
concept CongestionControl = requires(T& cc, const T& view,
                                     const AckSample& sample, Time now) {
  cc.OnAck(sample);
  // Nothing was acknowledged before the time-out; everything is resent.
  cc.OnRto(now);
  // The last reduction for a loss or a time-out was a mistake: packets that
  // were thought lost have been acknowledged before they were resent.
  cc.OnUndo();
  // The peer, or the path, reports that our packets were marked (a CNP).
  cc.OnCnp(now);
  // The number of packets that may be in flight; at least 1.
  { view.window() } -> std::same_as<uint32_t>;
  // The latest of the samples; zero: none yet.
  { (view.round_trip) } -> std::same_as<const Duration&>;
  // The algorithm sets the pacer's rate; the transport obeys its time.
  { (cc.pacer) } -> std::same_as<Pacer&>;
};

// What a transport with phases of recovery and idle times needs besides (TCP).
// RC has neither, so it does not pay for this.
//
//   OnLoss ─► SetWindow, with each acknowledgement ─► OnRecovered
//   OnRto  ─► (slow start)                         ─► OnRecovered
//
// A repair begins at most once for each window of data, and ends when all data
// that were in flight at its beginning are acknowledged. The transport must end
// it: after OnLoss() samples do not let the window grow until then. OnUndo()
// also ends it.
template <typename T>
concept StreamCongestionControl = CongestionControl<T> &&
    requires(T& cc, const T& view, Time now, uint32_t packets) {
  //= RFC 9438 4.6, RFC 7661 4.4.1: a reduction may depend on the flight size,
  //= so the transport states the flight size at the time of the loss: from the
  //= first unacknowledged byte to the last byte that was sent
  // `packets`: how many are in flight; without the argument, as many as the
  // window allows. After OnLoss() the window is ssthresh().
  cc.OnLoss(now, packets);
  cc.OnRto(now, packets);
  // The window in which slow start ends, and with which a repair ends.
  // UINT32_MAX: not known yet.
  { view.ssthresh() } -> std::same_as<uint32_t>;
  //= RFC 6937 3: proportional rate reduction sets the window during a repair;
  //= after it, the window is ssthresh
  // SetWindow() sets the window until the next call or OnRecovered().
  cc.SetWindow(packets);
  // The repair has ended, after `packets` packets were resent.
  cc.OnRecovered(now, packets);
  // New data leave while nothing is in flight. The time since the last
  // acknowledgement was idle.
  cc.OnRestart(now);
  // From now on packets carry up to `packets` bytes (the new MSS).
  cc.SetMss(packets);
};

}  // namespace urnic::cc
