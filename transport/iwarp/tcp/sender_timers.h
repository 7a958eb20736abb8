#pragma once

// Sender: its timers. Included by sender.h.

#include "transport/base/mutation.h"
#include "transport/iwarp/tcp/sender.h"

namespace urnic::tcp {

template <cc::StreamCongestionControl Cc>
void Sender<Cc>::OnTimer(Time now) {
  State& s = state_;
  if (now >= s.resume_at) s.resume_at = Time::Infinite();
  if (!s.reorder_at.IsInfinite()) {
    if (now < s.reorder_at) return;
    const uint64_t flight = Flight();
    const bool lost = FindLosses(now);
    if (!JudgeMtuProbe() && lost && s.phase == Phase::kOpen) {
      EnterRecovery(now, flight, 0);
    }
    return;
  }
  if (now >= s.probe_at) {
    s.probe_at = Time::Infinite();
    s.probe.due = !GiveUpLastMtuProbe() && config_.sack;
    //= RFC 8985 7.3: the retransmission timer is restarted when a tail loss
    //= probe is sent
    s.timeout_at = now + s.round_trip.timeout();
    return;
  }
  if (now >= s.timeout_at) OnTimeout(now);
}

// With SACK, nothing behind it can show that it is lost; without SACK, too few
// duplicate acknowledgements have come. A tail loss probe would repeat only a
// part of it, which the peer cannot acknowledge. So the segment is resent in
// parts, as if its loss were known.
template <cc::StreamCongestionControl Cc>
bool Sender<Cc>::GiveUpLastMtuProbe() {
  State& s = state_;
  const SegmentRing& ring = board_.ring();
  const uint32_t behind = ring.end() - s.mtu_probe_number - 1;
  if (!s.mtu_probe || (config_.sack && behind != 0)) return false;
  s.mtu_probe = false;
  const bool alone =
      s.mtu_probe_number == ring.first() && (behind == 0 || s.duplicates != 0);
  s.mtu_probe_fate = alone ? MtuProbeFate::kLost : MtuProbeFate::kUnclear;
  board_.MarkLost(s.mtu_probe_number);
  return true;
}

template <cc::StreamCongestionControl Cc>
void Sender<Cc>::OnTimeout(Time now) {
  State& s = state_;
  ++s.timeouts;
  s.round_trip.OnTimeout();
  s.timeout_at = now + s.round_trip.timeout();
  if (board_.empty()) {
    //= RFC 9293 3.8.6.1: a zero window is probed, and the interval between the
    //= probes grows exponentially
    //= RFC 9293 3.8.6.2.1: data that wait for a larger window are sent when the
    //= override time-out has expired
    (window_closed() ? s.window_probe_due : s.override_due) = true;
    return;
  }
  ++counters_.timeouts;
  if (s.phase != Phase::kTimeout || s.una != s.timeout_una) {
    //= RFC 5682 3.1: F-RTO begins only if no recovery is under way
    if (s.phase == Phase::kOpen && config_.sack) {
      s.forward.Start();
    } else {
      s.forward.step = ForwardRto::kOff;
    }
    //= RFC 5681 3.1: a further time-out of the same segment does not reduce
    //= the window again
    s.timeout_una = s.una;
    s.episode.Start(s.una);
    s.resent = 0;
    cc.OnRto(now, Packets(static_cast<uint32_t>(s.nxt - s.una)));
    OnReduced();
  } else {
    s.forward.step = ForwardRto::kOff;
  }
  s.phase = Phase::kTimeout;
  s.recover = s.nxt;
  if (board_.HeadIsSacked()) {
    //= RFC 2018 8: a time-out with the first segment SACKed shows that the peer
    //= has discarded SACKed data
    // The first missing byte is one that the peer has SACKed, which proves that
    // it has discarded data. Without this proof the SACKs stay valid, because
    // F-RTO and RACK need them.
    ++counters_.reneged;
    board_.ForgetSacks();
  }
  MUTATION_SKIPS(iwarp_timer_marks_nothing_lost)
  board_.MarkLostAtTimeout(now, ReorderWindow());
  (void)JudgeMtuProbe();
  s.force_head = true;
  s.in_pieces = false;
  s.duplicates = 0;
  s.probe = TailProbe();
  s.probe_at = s.reorder_at = Time::Infinite();
}

template <cc::StreamCongestionControl Cc>
void Sender<Cc>::ScheduleProbe(Time now) {
  State& s = state_;
  s.probe_at = Time::Infinite();
  //= RFC 8985 7.2: a tail loss probe is scheduled only with SACK, outside of
  //= recovery, and if no segment is SACKed
  // Without it, the timer is only that of a probe of the path.
  if (!(config_.sack || s.mtu_probe) || recovering() || board_.empty() ||
      board_.sacked_segments() != 0 || board_.lost_segments() != 0) {
    return;
  }
  //= RFC 8985 7.3: at most one tail loss probe is in flight, and a new round
  //= trip is measured before the next one
  if (s.probe.in_flight || s.probe.due || !s.round_trip.fresh) return;
  s.probe_at = TailProbe::Due(now, s.round_trip, board_.ring().size() == 1,
                              config_.max_ack_delay, s.timeout_at);
}

}  // namespace urnic::tcp
