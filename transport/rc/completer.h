#pragma once

// The receiving half of an RC requester: acknowledgements, responses and
// time-outs advance SendState, and work requests complete in order.

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/base/mutation.h"
#include "transport/rc/repairer.h"
#include "transport/rc/send_state.h"
#include "transport/work/error_counters.h"
#include "transport/work/timers.h"

namespace urnic::rc {

// Has no state of its own: one is made for each call.
class Completer {
 public:
  explicit Completer(SendState& state) : s_(state) {}

  // Processes any response, valid or hostile, in any state. `sink.Place()` gets
  // the data of read and atomic responses. Their work requests complete in
  // PollCompletion(), which the caller calls after the placements.
  template <typename Sink>
  RxVerdict OnResponse(const RxPacket& packet, uint8_t position, Time now,
                       Sink& sink) {
    if (!s_.running) return RxVerdict::kQpNotReady;
    const Psn psn = packet.psn();
    //= IBTA 9.7.5.1.1: ghost and stale acknowledgements are ignored
    const int32_t unsent = psn - s_.sent_psn;
    MUTATION_SKIPS(believes_forged_answers)
    if (unsent > 0 || (unsent == 0 && !IsSequenceNak(packet))) {
      return RxVerdict::kUnsentAck;
    }
    if (psn - s_.una_psn < 0) return OnStale(packet, now);
    switch (packet.info->kind) {
      case wire::PacketKind::kReadResponse:
        return OnReadResponse(packet, position, now, sink);
      case wire::PacketKind::kAtomicAck:
        return OnAtomicResponse(packet, position, now, sink);
      default:
        return OnAck(packet, now);
    }
  }

  // Takes held responses that are due now; see Qp::TakeDue().
  uint32_t TakeDue(std::span<RxPacket> out) {
    if (s_.recovery == nullptr) return 0;
    HeldPackets& held = s_.recovery->responses;
    held.ReleaseTaken();
    const uint32_t count = held.Take(s_.una_psn, out);
    if (count == 0) s_.ReturnRecovery();
    return count;
  }

  //= IBTA A17.9.3: a CNP makes the requester reduce its window
  RxVerdict OnCnp(Time now) {
    if (!s_.running) return RxVerdict::kCnpIgnored;
    MUTATION_SKIPS(ignores_notifications_of_congestion)
    s_.path->cc.OnCnp(now);
    return RxVerdict::kCnp;
  }

  // The next successful completion of a request before `limit`, in posting
  // order; false if there is none. Unsignaled requests are skipped. REQUIRES:
  // head <= limit <= una.
  bool PollDone(SendCompletion& out, uint32_t limit) {
    while (s_.head != limit) {
      const SendRecord& record = s_.RecordOf(s_.head);
      const uint32_t index = s_.head++;
      if (!record.signaled) continue;
      out = SendCompletion{.status = URNIC_WC_SUCCESS,
                           .opcode = CompletionOpcode(record.opcode),
                           .byte_len = record.length,
                           .wr_id = s_.sq.Read<urnic_sq_wqe>(index).wr_id};
      return true;
    }
    return false;
  }

  // The next completion for the program: a success, an error or a flush.
  bool PollCompletion(SendCompletion& out) {
    if (PollDone(out, s_.una)) return true;
    return __builtin_expect(s_.failed || s_.flushing, 0) && PollError(out);
  }

  // REQUIRES: now >= NextDeadline(). True if no acknowledgement came in time.
  bool OnTimer(Time now) {
    const bool paced = s_.pace_waiting;
    MUTATION_SKIPS(paces_for_ever)
    if (now >= s_.paced_until) s_.pace_waiting = false;
    if (now < s_.deadline()) return false;
    const bool timed_out = now >= s_.retry_at;
    if (!s_.running || !s_.Outstanding() || s_.rnr_waiting) {
      s_.StopTimer();
      if (s_.rnr_waiting && s_.Outstanding()) s_.ArmTimer(now);
      s_.rnr_waiting = false;
      return false;
    }
    if (!timed_out) {
      ActEarly(now);
      return false;
    }
    // Nothing is in flight: this queue pair waits for its path. The peer is not
    // silent.
    if (s_.tx_psn == s_.una_psn && (paced || s_.path->waiting != 0)) {
      s_.ArmTimer(now);
      return false;
    }
    s_.StopTimer();
    ++s_.counters.timeouts;
    s_.lost_response_seen = false;
    Retry(now, Why::kTimeout);
    return true;
  }

  // A placement of read data failed: its request ends in error.
  void OnPlacementFault(uint32_t index) {
    s_.FailAt(index, URNIC_WC_LOC_PROT_ERR, RxVerdict::kRemoteOperational);
  }

  // State ERR: flushes all posted requests, and those posted later.
  void EnterError() {
    s_.flushing = true;
    s_.running = false;
    s_.rnr_waiting = s_.pace_waiting = s_.silent = false;
    s_.granted = 0;
    s_.StopTimer();
    s_.EndRecovery();
    s_.probe = Probe::kNone;
    s_.next = s_.assigned = s_.posted = s_.una;
    s_.any_executed = false;
    s_.reads_in_flight = 0;
    s_.sent_psn = s_.tx_psn = s_.una_psn;
  }

 private:
  // After a needless rewind, sequence NAKs are trusted again after this many
  // losses.
  static constexpr uint8_t kNakDoubt = 4;

  // A sequence NAK may name the first unsent PSN: if a forged packet with a
  // later PSN has reached the responder, the NAK replaces the acknowledgement
  // that was due. It acknowledges everything that was sent.
  static bool IsSequenceNak(const RxPacket& packet) {
    return packet.info->kind == wire::PacketKind::kAck &&
           packet.aeth().syndrome() == wire::kNakPsnSequenceError;
  }

  uint8_t OpcodeInRing(uint32_t index) const {
    return CompletionOpcode(s_.sq.Read<urnic_sq_wqe>(index).opcode);
  }

  // Acknowledges every packet before `limit`. False if it stops at a read or
  // atomic that has no response yet.
  bool AckBefore(Psn limit, Time now) {
    const Psn before = s_.una_psn;
    uint32_t bytes = 0 - AckedOfOldest();
    bool clear = true;
    while (s_.una != s_.assigned && limit - s_.una_psn > 0) {
      const SendRecord& record = s_.RecordOf(s_.una);
      if (Contains(kAnsweredRequests, record.opcode)) {
        MUTATION_SKIPS(ack_completes_read)
        clear = false;
        break;
      }
      const Psn end = record.first_psn + static_cast<int32_t>(record.packets);
      if (limit - end < 0) {
        s_.una_psn = limit;
        break;
      }
      bytes += record.length;
      s_.una_psn = end;
      ++s_.una;
    }
    bytes += AckedOfOldest();
    s_.SkipExecuted();
    if (s_.una_psn != before) OnProgress(s_.una_psn - before, bytes, now);
    return clear;
  }

  // A response has arrived: requests behind it that were acknowledged before
  // are complete now, too.
  void AckWhatWaited(Time now) {
    MUTATION_SKIPS(forgets_what_was_acknowledged_behind_a_read)
    if (s_.acked_end - s_.una_psn > 0) (void)AckBefore(s_.acked_end, now);
  }

  // The acknowledged bytes of the oldest request.
  uint32_t AckedOfOldest() const {
    if (s_.una == s_.assigned) return 0;
    const auto packets =
        static_cast<uint32_t>(s_.una_psn - s_.RecordOf(s_.una).first_psn);
    return packets * s_.config.mtu;
  }

  void OnProgress(int32_t packets, uint32_t bytes, Time now) {
    s_.retries_left = s_.config.retry_count;
    s_.rnr_retries_left = s_.config.rnr_retry;
    s_.lost_response_seen = false;
    s_.silent = false;
    TellOfProgress(static_cast<uint32_t>(packets), bytes, now);
    if (s_.una_psn - s_.tx_psn > 0) s_.SeekTransmit();
    s_.rnr_waiting = false;  // the message was accepted after all
    if (s_.Outstanding()) {
      s_.ArmTimer(now);
    } else {
      s_.StopTimer();
    }
    if (__builtin_expect(s_.probe != Probe::kNone, 0)) {
      const bool all = s_.una_psn - s_.probe_end >= 0;
      s_.probe = all ? Probe::kNone : Probe::kAnswered;
    }
    if (__builtin_expect(s_.recovery != nullptr, 0)) repairer().OnAcked(now);
  }

  // Reports progress to congestion control.
  void TellOfProgress(uint32_t packets, uint32_t bytes, Time now) {
    if (__builtin_expect(s_.repair != Repair::kNone, 0)) OnRepaired();
    s_.counters.bytes_acked += bytes;
    cc::AckSample sample;
    sample.now = now;
    cc::SharedPath& path = *s_.path;
    sample.round_trip = s_.timer.Take(s_.una_psn, now);
    if (sample.round_trip.ns() != 0) {
      path.OnRoundTrip(now, sample.round_trip);
    }
    sample.packets = packets;
    sample.bytes = bytes;
    sample.marked = std::exchange(s_.marked, false);
    path.cc.OnAck(sample);
    path.answered_at = now;
  }

  enum class Why : uint8_t { kLoss, kTimeout };

  // Rare cases are in completer.cc.
  [[gnu::cold]] bool PollError(SendCompletion& out);
  [[gnu::cold]] bool PollFlush(SendCompletion& out);
  [[gnu::cold]] void Retry(Time now, Why why);
  [[gnu::cold]] void ActEarly(Time now);
  [[gnu::cold]] void OnSequenceNak(Time now);
  [[gnu::cold]] void GoBackForNak(Time now);
  [[gnu::cold]] void OnRepaired();
  [[gnu::cold]] RxVerdict OnStale(const RxPacket& packet, Time now);
  [[gnu::cold]] RxVerdict OnLostResponse(const RxPacket& packet, Psn end,
                                         Time now);
  [[gnu::cold]] RxVerdict RepeatReads(Time now);
  [[gnu::cold]] RxVerdict OnRnr(uint8_t timer_code, Time now);
  [[gnu::cold]] RxVerdict OnNak(const RxPacket& packet, uint8_t syndrome,
                                Time now);
  [[gnu::cold]] RxVerdict OnFatalNak(uint8_t status);
  // Records for people what happened to the oldest unacknowledged packet.
  void Note(HistoryEvent event, uint32_t detail) {
    s_.pool->Note(event, s_.limits.qpn, s_.una_psn.value(), detail);
  }

  RxVerdict OnAck(const RxPacket& packet, Time now) {
    const uint8_t syndrome = packet.aeth().syndrome();
    const Psn psn = packet.psn();
    switch (syndrome & wire::kAethTypeMask) {
      case wire::kAethAck:
        if (!AckBefore(psn.Next(), now)) {
          return OnLostResponse(packet, psn.Next(), now);
        }
        if (__builtin_expect(packet.bth->repair() != 0, 0)) {
          (void)repairer().OnMissing(packet, psn.Next(), now);
        }
        return RxVerdict::kAccept;
      case wire::kAethRnrNak:
        return AckBefore(psn, now) ? OnRnr(syndrome & wire::kAethValueMask, now)
                                   : OnLostResponse(packet, psn, now);
      case wire::kAethNak:
        if (syndrome > wire::kNakRemoteOperationalError) {
          return RxVerdict::kBadSyndrome;
        }
        return AckBefore(psn, now) ? OnNak(packet, syndrome, now)
                                   : OnLostResponse(packet, psn, now);
      default:
        return RxVerdict::kBadSyndrome;
    }
  }

  // Common to read and atomic responses: acknowledges what precedes `psn` and
  // checks that the oldest request waits for a response of this kind.
  RxVerdict Expect(const RxPacket& packet, wire::PacketKind kind, Time now) {
    if (!AckBefore(packet.psn(), now)) {
      return OnLostResponse(packet, packet.psn(), now);
    }
    if (s_.una == s_.assigned) return RxVerdict::kUnexpectedResponse;
    const SendRecord& record = s_.RecordOf(s_.una);
    if (!Contains(kAnsweredRequests, record.opcode) ||
        Contains(kRequestsAnsweredAsReads, record.opcode) !=
            (kind == wire::PacketKind::kReadResponse)) {
      return RxVerdict::kUnexpectedResponse;
    }
    return RxVerdict::kAccept;
  }

  // A read request (one of several, for a long read) or an atomic is answered.
  void FinishPart(SendRecord& record) {
    if (record.reads_in_flight == 0) return;  // it was about to be resent
    --record.reads_in_flight;
    --s_.reads_in_flight;
  }

  template <typename Sink>
  RxVerdict OnReadResponse(const RxPacket& packet, uint8_t position, Time now,
                           Sink& sink) {
    const RxVerdict expected =
        Expect(packet, wire::PacketKind::kReadResponse, now);
    if (expected != RxVerdict::kAccept) return expected;
    SendRecord& record = s_.RecordOf(s_.una);
    const auto index = static_cast<uint32_t>(s_.una_psn - record.first_psn);
    const uint64_t offset = uint64_t{index} * s_.config.mtu;
    // The response to an atomic write or a flush has no data.
    const uint32_t length =
        record.opcode == URNIC_WR_RDMA_READ ? record.length : 0;
    const uint32_t left = length - static_cast<uint32_t>(offset);
    const uint32_t want = std::min(left, s_.config.mtu);
    const bool ends_part = index + 1 == s_.EndOfReadPart(record, index);
    // A response may also end at the end of a request for the missing part.
    if (__builtin_expect(packet.bth->repair() != 0, 0)) {
      s_.peer_repeats_parts = true;
    }
    const bool may_end =
        ends_part || MUTATION(refuses_the_end_of_a_missing_part,
                              s_.peer_repeats_parts, false);
    if (packet.payload_bytes != want ||
        (packet.info->last ? !may_end : ends_part)) {
      s_.FailAt(s_.una, URNIC_WC_BAD_RESP_ERR, RxVerdict::kBadResponse);
      return RxVerdict::kBadResponse;
    }
    if (!Scatter(packet.payload, want, offset, position, sink)) {
      s_.FailAt(s_.una, URNIC_WC_LOC_PROT_ERR, RxVerdict::kAccept);
      return RxVerdict::kAccept;
    }
    s_.una_psn = s_.una_psn.Next();
    if (ends_part) FinishPart(record);
    if (index + 1 == record.packets) {
      ++s_.una;
      s_.SkipExecuted();
    }
    OnProgress(1, want, now);
    AckWhatWaited(now);
    return RxVerdict::kAccept;
  }

  template <typename Sink>
  RxVerdict OnAtomicResponse(const RxPacket& packet, uint8_t position, Time now,
                             Sink& sink) {
    const RxVerdict expected =
        Expect(packet, wire::PacketKind::kAtomicAck, now);
    if (expected != RxVerdict::kAccept) return expected;
    // The value arrives in network order; memory holds it in the host's.
    s_.atomic_value = packet.atomic_ack_eth().original_value.value();
    if (!Scatter(reinterpret_cast<const uint8_t*>(&s_.atomic_value), 8, 0,
                 position, sink)) {
      s_.FailAt(s_.una, URNIC_WC_LOC_PROT_ERR, RxVerdict::kAccept);
      return RxVerdict::kAccept;
    }
    FinishPart(s_.RecordOf(s_.una));
    ++s_.una;
    s_.una_psn = s_.una_psn.Next();
    s_.SkipExecuted();
    OnProgress(1, sizeof(s_.atomic_value), now);
    AckWhatWaited(now);
    return RxVerdict::kAccept;
  }

  // Places response data into the scatter list of the oldest request, as the
  // ring has it now. Keys are checked again: the memory may have been
  // deregistered meanwhile.
  template <typename Sink>
  bool Scatter(const uint8_t* data, uint32_t bytes, uint64_t offset,
               uint8_t position, Sink& sink) {
    const uint32_t num_sge = std::min<uint32_t>(
        s_.sq.Read<urnic_sq_wqe>(s_.una).num_sge, s_.limits.max_sge_send);
    if (offset == 0) s_.scattered = SgeCursor{};
    return WalkSges(
               num_sge,
               [this](uint32_t i) {
                 return s_.sq.ReadSge<urnic_sq_wqe>(s_.una, i);
               },
               s_.scattered, offset, bytes, *s_.mrs, s_.limits.pd,
               mem::kLocalWrite,
               [&](uint64_t address, uint32_t piece) {
                 sink.Place(Placement{.packet = position,
                                      .origin = s_.una,
                                      .bytes = piece,
                                      .target = address,
                                      .source = data});
                 data += piece;
               }) == WalkResult::kOk;
  }

  Repairer repairer() { return Repairer(s_); }
  RoceCounters& counters() { return s_.pool->counters(); }

  SendState& s_;
};

}  // namespace urnic::rc
