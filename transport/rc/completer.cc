#include "transport/rc/completer.h"

#include <algorithm>

#include "transport/base/mutation.h"

namespace urnic::rc {

// The error of the request that has failed, or a flush.
bool Completer::PollError(SendCompletion& out) {
  if (s_.failed && s_.head == s_.failed_index) {
    out = SendCompletion{.status = s_.failed_status,
                         .opcode = OpcodeInRing(s_.head),
                         .cause = s_.failed_cause,
                         .wr_id = s_.sq.Read<urnic_sq_wqe>(s_.head).wr_id};
    CountSendError(out.status, counters());
    s_.pool->Note(HistoryEvent::kRequestFailed, s_.limits.qpn, out.status,
                  static_cast<uint32_t>(out.cause));
    s_.failed = false;
    s_.una = ++s_.head;
    EnterError();
    return true;
  }
  return s_.flushing && PollFlush(out) &&
         MUTATION(flushes_signaled_only, true,
                  s_.RecordOf(s_.head - 1).signaled || PollFlush(out));
}

//= IBTA 10.7.3.1: after an error, every request completes, whether it is
//= signaled or not
bool Completer::PollFlush(SendCompletion& out) {
  const uint32_t posted = s_.sq.Posted(s_.head);
  if (posted == 0 || posted == UINT32_MAX) return false;
  out = SendCompletion{.status = URNIC_WC_WR_FLUSH_ERR,
                       .opcode = OpcodeInRing(s_.head),
                       .wr_id = s_.sq.Read<urnic_sq_wqe>(s_.head).wr_id};
  CountSendError(out.status, counters());
  s_.una = s_.next = s_.assigned = s_.posted = ++s_.head;
  return true;
}

// Go-back-N. After a time-out, if no retry is left, the oldest request fails. A
// NAK does not use up a retry, although the standard requires that, and does
// not extend the time-out: on a path that loses packets it comes from a peer
// that is alive.
void Completer::Retry(Time now, Why why) {
  if (MUTATION(a_nak_uses_up_a_retry, why == Why::kLoss, false)) {
    Note(HistoryEvent::kWentBack, s_.InFlight());
    s_.path->cc.OnLoss(now, s_.InFlight());
    s_.RewindToUna();
    s_.ArmProbe(now);
  } else {
    //= IBTA 9.9.2.4.2: each time-out uses up one retry
    if (s_.retries_left == 0) {
      ++counters().req_transport_retries_exceeded;
      Note(HistoryEvent::kRetriesExceeded, s_.config.retry_count + 1u);
      s_.FailAt(s_.una, URNIC_WC_RETRY_EXC_ERR, RxVerdict::kAccept);
      return;
    }
    --s_.retries_left;
    ++counters().local_ack_timeout_err;
    Note(HistoryEvent::kTimeout, s_.retries_left);
    // If packets of other queue pairs are answered, this queue pair's peer is
    // silent, not the path.
    if (now - s_.path->answered_at >= s_.config.timeout) {
      s_.path->cc.OnRto(now);
    }
    s_.RewindToUna();
    s_.repair = Repair::kTimeout;
    s_.ArmTimer(now);
  }
  s_.sent_since = now;
}

// The actions that are due before the time-out.
void Completer::ActEarly(Time now) {
  s_.act_at = Time::Infinite();
  if (s_.repair == Repair::kNakWaits) return GoBackForNak(now);
  if (s_.recovery != nullptr) {
    if (now < s_.recovery->repair_until) return repairer().UpdateGaps(now);
    MUTATION_SKIPS(never_goes_back_from_a_repair)
    if (!repairer().TryAgain(now)) GoBackForNak(now);
  } else if (MUTATION(probes_with_nothing_under_way, s_.tx_psn == s_.una_psn,
                      false)) {
    // Nothing is in flight that could be answered: this queue pair waits for
    // its path. (A probe would take the place of the waiting packets, and delay
    // the time-out.)
    s_.ArmProbe(now);
  } else if (s_.probe != Probe::kAnswered) {
    s_.silent = s_.probe != Probe::kNone;
    MUTATION_SKIPS(never_sends_a_probe)
    s_.probe = Probe::kDue;
    if (s_.probes != UINT8_MAX) ++s_.probes;
    s_.ArmProbe(now);
  } else {
    // Packets that were sent before the probe and are not acknowledged with it
    // are lost.
    s_.probe = Probe::kNone;
    if (s_.Recover() == nullptr) return GoBackForNak(now);
    repairer().OnReport({.first = s_.una_psn, .end = s_.probe_end}, now);
  }
}

// A forged packet with a future PSN makes the responder report a gap that
// does not exist. (40 000 of them a second cost 80 % of the rate of a
// connection that went back for each.) There are two signs of such a NAK. If
// it comes sooner than a round trip after the packet that it names was sent,
// it cannot be about that transmission. And after a needless rewind, the next
// NAKs are doubted for a round trip: either the packet is acknowledged by
// then, or only that time is lost.
//
// The responder reports a gap only once. If the packet was lost after all, no
// other NAK will report it. So the deadline is brought forward.
void Completer::OnSequenceNak(Time now) {
  constexpr int64_t kEarlyRoundTrips = 4;
  // Nothing is in flight in an RNR wait either.
  if (s_.tx_psn == s_.una_psn) return;
  const cc::DelayWindow& path = s_.path->cc;
  const bool too_soon = MUTATION(believes_naks_sooner_than_a_round_trip,
                                 now - s_.sent_since < path.Shortest(), false);
  if (!too_soon && MUTATION(doubts_no_nak, s_.nak_doubt == 0, true))
    return GoBackForNak(now);
  if (path.round_trip.ns() == 0) return;
  const Time early = too_soon
                         ? s_.sent_since + path.Shortest() * kEarlyRoundTrips
                         : now + path.round_trip;
  s_.act_at = std::min(s_.act_at, early);
  s_.repair = Repair::kNakWaits;
}

void Completer::GoBackForNak(Time now) {
  Retry(now, Why::kLoss);
  s_.repair = Repair::kNak;
}

// A packet was acknowledged: decides whether the repair was needless.
void Completer::OnRepaired() {
  // Acknowledged before it was resent: it was not lost.
  const bool needless = s_.una_psn - s_.tx_psn > 0;
  switch (s_.repair) {
    case Repair::kTimeout:
      if (!needless) return;
      s_.path->cc.OnUndo();
      break;
    case Repair::kNak:
      // No undo: the gap may have been real, and filled by a late packet.
      if (needless) {
        s_.nak_doubt = kNakDoubt;
      } else if (s_.una_psn - s_.timer.resent_end <= 0) {
        return;
      } else if (s_.nak_doubt != 0) {
        --s_.nak_doubt;
      }
      break;
    default:
      if (s_.nak_doubt != 0) s_.nak_doubt = kNakDoubt;
  }
  s_.repair = Repair::kNone;
}

// A response to a packet that is already acknowledged. If it repeats the newest
// acknowledgement, the resent packets were duplicates: if the responder had
// missed one, it would have dropped everything after it.
RxVerdict Completer::OnStale(const RxPacket& packet, Time now) {
  const Psn psn = packet.psn();
  // It may report the packets that are missing after it.
  if (packet.info->kind == wire::PacketKind::kAck &&
      packet.bth->repair() != 0 && psn.Next() == s_.una_psn) {
    (void)repairer().OnMissing(packet, s_.una_psn, now);
    return RxVerdict::kStaleAck;
  }
  if (s_.repair == Repair::kNak && psn.Next() == s_.una_psn) {
    s_.nak_doubt = kNakDoubt;
    s_.repair = Repair::kNone;
  }
  return RxVerdict::kStaleAck;
}

// A response beyond an unanswered read, or an acknowledgement of what follows
// the read. The read's responses are late or lost: those before `end`.
RxVerdict Completer::OnLostResponse(const RxPacket& packet, Psn end, Time now) {
  ++counters().implied_nak_seq_err;
  if (end - s_.acked_end > 0) s_.acked_end = end;
  if (s_.rnr_waiting) return RxVerdict::kLostResponse;
  RxVerdict verdict = RxVerdict::kLostResponse;
  return repairer().OnLostResponse(packet, end, now, verdict)
             ? verdict
             : RepeatReads(now);
}

// Without selective repair. Only the first such response of a flight starts
// a retry.
RxVerdict Completer::RepeatReads(Time now) {
  if (!s_.lost_response_seen) {
    Retry(now, Why::kLoss);
    s_.lost_response_seen = true;
  }
  return RxVerdict::kLostResponse;
}

//= IBTA 9.7.5.2.8: RNR NAKs have their own retry counter
RxVerdict Completer::OnRnr(uint8_t timer_code, Time now) {
  if (s_.rnr_waiting) return RxVerdict::kStaleAck;
  ++s_.counters.rnr_naks;
  if (s_.rnr_retries_left == 0) {
    ++counters().req_rnr_retries_exceeded;
    Note(HistoryEvent::kRnrRetriesExceeded, timer_code);
    s_.FailAt(s_.una, URNIC_WC_RNR_RETRY_EXC_ERR, RxVerdict::kRnrReceived);
    return RxVerdict::kRnrReceived;
  }
  ++counters().rnr_nak_retry_err;
  Note(HistoryEvent::kRnrNak, timer_code);
  if (s_.config.rnr_retry != 7) --s_.rnr_retries_left;
  // The packet that it names has arrived, so none was lost before it.
  s_.retries_left = s_.config.retry_count;
  s_.RewindToUna();
  s_.rnr_waiting = true;
  s_.retry_at = Time::Infinite();
  s_.act_at = now + RnrTimer(timer_code);
  return RxVerdict::kRnrReceived;
}

RxVerdict Completer::OnNak(const RxPacket& packet, uint8_t syndrome, Time now) {
  if (syndrome == wire::kNakPsnSequenceError) {
    Note(HistoryEvent::kSequenceNak, packet.bth->repair());
  } else {
    Note(HistoryEvent::kErrorNak, syndrome);
  }
  switch (syndrome) {
    case wire::kNakPsnSequenceError:
      ++s_.counters.sequence_naks;
      ++counters().packet_seq_err;
      if (!repairer().OnMissing(packet, packet.psn(), now)) OnSequenceNak(now);
      return RxVerdict::kNakReceived;
    case wire::kNakInvalidRequest:
      ++counters().req_remote_invalid_request;
      return OnFatalNak(URNIC_WC_REM_INV_REQ_ERR);
    case wire::kNakRemoteAccessError:
      ++counters().req_remote_access_errors;
      return OnFatalNak(URNIC_WC_REM_ACCESS_ERR);
    default:
      return OnFatalNak(URNIC_WC_REM_OP_ERR);
  }
}

RxVerdict Completer::OnFatalNak(uint8_t status) {
  s_.FailAt(s_.una, status, RxVerdict::kNakReceived);
  return RxVerdict::kNakReceived;
}

}  // namespace urnic::rc
