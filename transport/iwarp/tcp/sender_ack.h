#pragma once

// Sender: the effects of an acknowledgement. Included by sender.h.

#include "transport/iwarp/tcp/sender.h"

namespace urnic::tcp {

template <cc::StreamCongestionControl Cc>
AckResult Sender<Cc>::Judge(SeqNum ack) {
  State& s = state_;
  //= RFC 9293 3.10.7.4: an acknowledgement of something not yet sent is not
  //= accepted
  if (ack - s.nxt > 0) {
    ++counters_.unsent_acks;
    return AckResult::kUnsent;
  }
  const int32_t moved = ack - s.una;
  if (moved > 0) return AckResult::kNew;
  if (moved == 0) return AckResult::kDuplicate;
  //= RFC 5961 5.2: an acknowledgement number is valid if SND.UNA -
  //= MAX.SND.WND <= SEG.ACK <= SND.NXT
  return -int64_t{moved} > s.peer.largest ? AckResult::kTooOld
                                          : AckResult::kOld;
}

template <cc::StreamCongestionControl Cc>
template <typename Upper>
AckResult Sender<Cc>::OnAck(const wire::TcpSegment& segment, uint32_t window,
                            Time now, Upper& upper) {
  State& s = state_;
  s.largest_delivered = 0;
  const AckResult result = Judge(segment.ack);
  const bool moved = result == AckResult::kNew;
  if (!moved && result != AckResult::kDuplicate) return result;
  // Nothing was in flight when this round began: it lasts until the segments
  // that are in flight now have arrived. Otherwise the first acknowledgement
  // would end a round.
  if (s.rounds.end == s.una) s.rounds.end = s.nxt;
  const uint64_t flight_before = Flight();
  const bool window_changed = s.peer.OnAck(segment.seq, segment.ack, window);
  //= RFC 5681 2: a duplicate acknowledgement has no data, the number and window
  //= of the last one, and data are outstanding
  const bool duplicate =
      !moved && !window_changed && !board_.empty() && segment.seq_bytes() == 0;
  Delivery delivery;
  delivery.now = now;
  delivery.recover = s.recover;
  delivery.shortest = s.round_trip.shortest.value();
  delivery.clock = config_.clock;
  if (config_.timestamps && segment.options.timestamps.has_value()) {
    delivery.has_echo = true;
    delivery.echo = segment.options.timestamps->echo;
  }
  if (moved) board_.Acknowledge(segment.ack, delivery, upper);
  s.una = segment.ack;
  counters_.bytes_acked += delivery.acked_bytes;
  const Dsack dsack = TakeSacks(segment, delivery);
  Measure(segment, delivery);
  if (delivery.known) {
    board_.rack.OnDelivered(delivery.sent, delivery.end, delivery.rtt);
  }
  board_.rack.OnAck(s.una, s.nxt, dsack.present);
  JudgeRetransmissions(delivery, dsack, duplicate);
  if (s.probe.OnAck(segment.ack, dsack.present && dsack.end == s.probe.end,
                    duplicate && segment.options.sack_count == 0) &&
      s.phase == Phase::kOpen) {
    cc.OnLoss(now, 1);
    cc.OnRecovered(now, 1);
    OnReduced();
  }
  bool lost = config_.sack ? FindLosses(now)
                           : FindLossesWithoutSack(delivery, duplicate);
  if (JudgeMtuProbe()) lost = false;
  s.largest_delivered = delivery.largest;
  Recover(delivery, flight_before, lost, duplicate);
  Report(segment, delivery);
  if (moved || window_closed()) s.timeouts = 0;
  if (moved) OnProgress(now);
  //= RFC 9293 3.8.6.1: the probing of a zero window ends when the window opens
  if (s.persisting && !window_closed() && window_changed) {
    s.persisting = s.window_probe_due = false;
    s.timeout_at = Time::Infinite();
    s.round_trip.back_off = 0;
  }
  if (board_.sacked_segments() != 0 || recovering()) {
    s.probe_at = Time::Infinite();
  }
  return result;
}

template <cc::StreamCongestionControl Cc>
typename Sender<Cc>::Dsack Sender<Cc>::TakeSacks(
    const wire::TcpSegment& segment, Delivery& delivery) {
  Dsack dsack;
  if (!config_.sack) return dsack;
  const auto sacks = segment.options.sacks();
  std::array<wire::SackBlock, wire::kMaxSackBlocks> blocks;
  size_t count = 0;
  for (size_t i = 0; i < sacks.size(); ++i) {
    const wire::SackBlock block = sacks[i];
    const int32_t length = block.end - block.begin;
    //= RFC 2883 4: the first block is a D-SACK if it lies below the
    //= acknowledgement, or within the second block
    if (i == 0 && length > 0 &&
        (block.end - state_.una <= 0 ||
         (sacks.size() > 1 && block.begin - sacks[1].begin >= 0 &&
          block.end - sacks[1].end <= 0))) {
      dsack = {true, block.begin, block.end};
      ++counters_.dsacks;
      continue;
    }
    const auto begin = static_cast<uint32_t>(block.begin - state_.una);
    const auto end = static_cast<uint32_t>(block.end - state_.una);
    if (begin >= end || end > static_cast<uint32_t>(state_.nxt - state_.una)) {
      ++counters_.bad_sacks;
      continue;
    }
    size_t at = count++;
    for (; at > 0 && blocks[at - 1].begin - block.begin > 0; --at) {
      blocks[at] = blocks[at - 1];
    }
    blocks[at] = block;
  }
  for (size_t i = 0; i < count; ++i) board_.Sack(blocks[i], delivery);
  return dsack;
}

template <cc::StreamCongestionControl Cc>
void Sender<Cc>::Measure(const wire::TcpSegment& segment,
                         const Delivery& delivery) {
  RoundTrip& round_trip = state_.round_trip;
  Duration sample =
      delivery.oldest.ns() != 0 ? delivery.oldest : delivery.newest;
  if (sample.ns() == 0 && delivery.acked_bytes != 0 && delivery.has_echo) {
    //= RFC 7323 4.2: the echoed timestamp gives a round trip also for a
    //= retransmitted segment
    // The timestamp is coarse, so it is used only if there is no other sample.
    const auto ticks = static_cast<int32_t>(config_.clock.At(delivery.now) -
                                            segment.options.timestamps->echo);
    if (ticks >= 0) {
      sample =
          Duration::Nanoseconds((int64_t{ticks} + 1) * TimestampClock::kTickNs);
    }
  }
  if (sample.ns() == 0) return;
  round_trip.OnSample(sample, delivery.now);
  round_trips_.Add(sample);
  if (delivery.newest.ns() != 0) {
    round_trip.shortest.OnSample(delivery.newest, delivery.now);
  }
}

template <cc::StreamCongestionControl Cc>
void Sender<Cc>::OnProgress(Time now) {
  State& s = state_;
  s.force_head = false;
  s.override_due = false;
  s.persisting = false;
  //= RFC 6298 5.2: when everything is acknowledged, the retransmission timer
  //= stops
  //= RFC 6298 5.3: when new data are acknowledged, the retransmission timer
  //= starts again
  s.timeout_at =
      board_.empty() ? Time::Infinite() : now + s.round_trip.timeout();
  s.episode.OnAck(s.una);
  ScheduleProbe(now);
}

template <cc::StreamCongestionControl Cc>
void Sender<Cc>::JudgeRetransmissions(const Delivery& delivery,
                                      const Dsack& dsack, bool duplicate) {
  State& s = state_;
  const bool moved = delivery.acked_bytes != 0;
  const ForwardRto::Finding finding =
      s.forward.OnAck(moved, s.una - s.recover >= 0, delivery.original,
                      delivery.beyond, duplicate);
  bool undo = finding == ForwardRto::kSpurious;
  if (moved &&
      s.episode.EchoesOriginal(s.una, delivery.has_echo, delivery.echo)) {
    // The original came after segments that were sent later.
    if (s.phase == Phase::kRecovery) board_.rack.reordering_seen = true;
    undo = true;
  }
  if (dsack.present && s.episode.OnDsack(dsack.begin)) undo = true;
  if (undo) Undo();
}

template <cc::StreamCongestionControl Cc>
void Sender<Cc>::Undo() {
  State& s = state_;
  ++counters_.undone;
  cc.OnUndo();
  s.episode.open = false;
  s.forward.step = ForwardRto::kOff;
  if (s.phase == Phase::kTimeout) {
    // The segments that the time-out marked lost are only late. RACK still
    // detects real losses.
    s.force_head = false;
    board_.RestoreLost();
    s.in_pieces = false;
    s.round_trip.back_off = 0;
  }
  s.phase = Phase::kOpen;
}

template <cc::StreamCongestionControl Cc>
bool Sender<Cc>::JudgeMtuProbe() {
  State& s = state_;
  if (__builtin_expect(!s.mtu_probe, 1)) return false;
  const SegmentRing& ring = board_.ring();
  const bool acked = s.mtu_probe_number - ring.first() >= ring.size();
  const auto state =
      acked ? SegmentRecord::kSacked : ring.at(s.mtu_probe_number).state;
  if (state == SegmentRecord::kInFlight) return false;
  s.mtu_probe = false;
  if (state == SegmentRecord::kSacked) {
    s.mtu_probe_fate = MtuProbeFate::kArrived;
    return false;
  }
  //= RFC 4821 7.6.2: the loss of a probe alone is not treated as an indication
  //= of congestion
  const bool alone = board_.lost_segments() == 1 && !recovering();
  s.mtu_probe_fate = alone ? MtuProbeFate::kLost : MtuProbeFate::kUnclear;
  return alone;
}

template <cc::StreamCongestionControl Cc>
bool Sender<Cc>::FindLosses(Time now) {
  bool found = false;
  state_.reorder_at = board_.DetectLosses(now, ReorderWindow(), found);
  return found;
}

template <cc::StreamCongestionControl Cc>
bool Sender<Cc>::FindLossesWithoutSack(const Delivery& delivery,
                                       bool duplicate) {
  State& s = state_;
  if (delivery.acked_bytes != 0) {
    s.duplicates = 0;
    //= RFC 6582 3.2: a partial acknowledgement shows that the next segment is
    //= lost, too
    return s.phase == Phase::kRecovery && s.una - s.recover < 0 &&
           board_.MarkHeadLost();
  }
  if (!duplicate) return false;
  ++s.duplicates;
  //= RFC 5681 3.2: the third duplicate acknowledgement starts a fast
  //= retransmission
  //= RFC 6582 3.2: duplicate acknowledgements of data before the last recovery
  //= point start no new recovery
  return s.duplicates == Rack::kDupThresh && s.phase == Phase::kOpen &&
         s.una - s.recover > 0 && board_.MarkHeadLost();
}

template <cc::StreamCongestionControl Cc>
void Sender<Cc>::Recover(const Delivery& delivery, uint64_t flight_before,
                         bool lost, bool duplicate) {
  State& s = state_;
  //= RFC 6582 3.2: recovery ends when everything that was sent before it is
  //= acknowledged
  if (recovering() && s.una - s.recover >= 0) {
    s.phase = Phase::kOpen;
    s.forward.step = ForwardRto::kOff;
    s.episode.OnRepaired(s.nxt);
    board_.rack.OnRecoveryEnd();
    cc.OnRecovered(delivery.now, s.resent);
  }
  uint32_t delivered = delivery.delivered_bytes;
  if (!config_.sack && duplicate &&
      s.reduction.delivered < s.reduction.flight) {
    //= RFC 9937 6.2: without SACK, each duplicate acknowledgement counts as one
    //= delivered segment
    delivered = config_.mss;
  }
  if (lost && s.phase == Phase::kOpen) {
    EnterRecovery(delivery.now, flight_before, delivered);
  } else if (s.phase == Phase::kRecovery) {
    s.reduction.OnAck(delivered, pipe(), delivery.acked_bytes != 0 && !lost,
                      config_.mss);
    SetReducedWindow();
  }
}

template <cc::StreamCongestionControl Cc>
void Sender<Cc>::EnterRecovery(Time now, uint64_t flight, uint32_t delivered) {
  State& s = state_;
  ++counters_.recoveries;
  s.phase = Phase::kRecovery;
  //= RFC 6675 5: the window is reduced once until the recovery point is
  //= acknowledged
  s.recover = s.nxt;
  s.episode.Start(s.una);
  s.probe_at = Time::Infinite();
  s.probe.due = false;
  s.resent = 0;
  cc.OnLoss(now, Packets(static_cast<uint32_t>(s.nxt - s.una)));
  OnReduced();
  s.reduction.Start(flight, uint64_t{cc.ssthresh()} * config_.mss);
  s.reduction.OnAck(delivered, pipe(), /*safe=*/false, config_.mss);
  SetReducedWindow();
}

template <cc::StreamCongestionControl Cc>
void Sender<Cc>::SetReducedWindow() {
  //= RFC 9937 6.2: in recovery, the window is the data in flight plus what may
  //= be sent
  cc.SetWindow(std::max(Packets(pipe() + state_.reduction.quota), 1u));
}

template <cc::StreamCongestionControl Cc>
void Sender<Cc>::OnReduced() {
  //= RFC 3168 6.1.2: the window is reduced once for each window of data, and
  //= CWR tells the peer
  state_.ecn_point = state_.nxt;
  state_.cwr_due = config_.ecn;
}

template <cc::StreamCongestionControl Cc>
void Sender<Cc>::Report(const wire::TcpSegment& segment,
                        const Delivery& delivery) {
  State& s = state_;
  const bool echo = config_.ecn && segment.Has(wire::kTcpEce);
  const bool marked = echo && s.una - s.ecn_point >= 0;
  if (marked) {
    ++counters_.ecn_reductions;
    OnReduced();
  }
  if (delivery.delivered_bytes == 0 && !marked) return;
  cc::AckSample sample;
  sample.now = delivery.now;
  sample.round_trip = delivery.newest;
  //= RFC 3465 2.1: the window grows by acknowledged bytes, so many small
  //= acknowledgements do not open it faster
  sample.packets = delivery.segments;
  sample.bytes = delivery.delivered_bytes;
  sample.duplicate = delivery.acked_bytes == 0;
  sample.marked = marked;
  //= RFC 8257 3.3: all bytes that an acknowledgement with ECE acknowledges
  //= count as marked
  if (echo) sample.marked_bytes = delivery.delivered_bytes;
  sample.ends_round = s.rounds.Take(s.una, s.nxt);
  sample.app_limited = s.rounds.app_limited();
  cc.OnAck(sample);
}

}  // namespace urnic::tcp
