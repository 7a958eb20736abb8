#pragma once

// What the two halves of the requester share: which work requests are posted,
// which PSNs they own, what has been sent and what has been acknowledged.
//
//   head <= una <= next <= assigned <= posted          (work request indices)
//   una_psn <= tx_psn <= sent_psn <= next_psn          (on the PSN circle)
//
// head..una: acknowledged, completion not taken yet. una..next: in flight.
// next: being transmitted (or resent, when next < assigned).

#include <algorithm>
#include <cstdint>
#include <span>

#include "ras/metrics/counters.h"
#include "transport/base/check.h"
#include "transport/base/mutation.h"
#include "transport/cc/pacer.h"
#include "transport/cc/round_trip_timer.h"
#include "transport/cc/shared_path.h"
#include "transport/mem/mr_table.h"
#include "transport/rc/recovery.h"
#include "transport/work/request.h"
#include "transport/work/send_request.h"
#include "transport/work/types.h"
#include "transport/work/work_queue.h"

namespace urnic::rc {

// The requester's record of a transmitted work request. It is private, so that
// a program that alters a posted entry cannot alter PSN accounting.
struct SendRecord {
  Psn first_psn;
  uint32_t packets = 0;
  uint32_t length = 0;
  uint8_t opcode = 0;  // enum urnic_wr_opcode
  bool signaled = false;
  uint8_t reads_in_flight = 0;  // its share of SendState::reads_in_flight
  // A long read is requested in parts of 2^part_shift packets, so that the
  // responses stay near the window. A local operation, which has no packets:
  // kExecuted, when it is.
  uint8_t part_shift = 0;

  static constexpr uint8_t kExecuted = UINT8_MAX;
  bool executed() const { return part_shift == kExecuted; }
  // REQUIRES: a read
  uint32_t part() const { return 1u << part_shift; }
};
static_assert(sizeof(SendRecord) == 16);

// The current repair, until an acknowledgement ends it.
enum class Repair : uint8_t {
  kNone,
  kTimeout,   // resent after a timeout
  kNak,       // resent after a sequence NAK
  kNakWaits,  // a sequence NAK is doubted: resends at the deadline
};

// The probe for a peer that has been silent for some round trips.
enum class Probe : uint8_t {
  kNone,
  kDue,       // the oldest packet is about to be resent
  kSent,      // nothing was acknowledged since
  kAnswered,  // a part of what was sent before the probe was acknowledged
};

struct SendState {
  SendState(const QpLimits& limits, WorkQueueView queue,
            std::span<SendRecord> records, mem::MrTable& mrs,
            RecoveryPool* pool)
      : sq(queue),
        records(records.data()),
        mrs(&mrs),
        limits(limits),
        pool(pool) {
    URNIC_CHECK(records.size() == queue.entries());
  }
  ~SendState() {
    Join(nullptr);
    if (recovery != nullptr) pool->Return(recovery);
  }

  // The engine's timers are not exact, and a peer may be doing something else.
  static constexpr Duration kSlack = Duration::Microseconds(100);
  // When the first probe is sent on a shared path whose round trip is unknown.
  static constexpr Duration kFirstProbe = Duration::Milliseconds(20);

  SendRecord& RecordOf(uint32_t index) const {
    return records[sq.PlaceOf(index)];
  }
  // The index of the first packet after the part that contains packet `index`
  // of the read.
  static uint32_t EndOfReadPart(const SendRecord& record, uint32_t index) {
    const uint32_t part = record.part();
    return std::min(record.packets, (index / part + 1) * part);
  }
  uint32_t InFlight() const {
    return static_cast<uint32_t>(tx_psn - una_psn) - not_under_way;
  }
  bool Outstanding() const { return una_psn != sent_psn; }

  // Leaves the path, and joins this one. Null: none.
  void Join(cc::SharedPath* other) {
    if (path != nullptr) {
      MUTATION_SKIPS(keeps_its_part_of_the_path)
      path->Account(charged, 0);
      --path->users;
    }
    path = other;
    charged = granted = 0;
    if (path != nullptr) ++path->users;
  }
  // Tells the path how many packets are in flight. If the peer is silent, they
  // are lost or late, so others need not wait for them.
  void Account() {
    const uint32_t now_charged =
        (MUTATION(counts_silent_queue_pairs, silent, false) ? 0 : InFlight()) +
        MUTATION(counts_no_grants, granted, 0);
    if (now_charged == charged) return;
    path->Account(charged, now_charged);
    charged = now_charged;
  }
  // How many packets may be in flight. Queue pairs that wait for the path go
  // first, unless this one has waited itself and got a grant.
  uint32_t FlightLimit() const {
    MUTATION_SKIPS(sends_into_silence)
    if (silent) return InFlight();
    return InFlight() + granted +
           (MUTATION(passes_those_who_wait, path->waiting == 0, true)
                ? path->Room()
                : 0);
  }
  // ... if the next packet is a new one: while packets are missing, the peer
  // must be able to hold it.
  uint32_t LimitOfNew(uint32_t limit) const {
    if (__builtin_expect(not_under_way == 0, 1)) return limit;
    return std::min(limit, kHoldSpan - std::min(not_under_way, kHoldSpan));
  }
  // Whether queue pairs that wait for the path may send now.
  bool LetsOthersGo() const {
    return path != nullptr && __builtin_expect(path->waiting != 0, 0) &&
           path->LetsGo();
  }
  // If no packet in flight has AckReq, nothing would open the window. Then one
  // more packet is sent, with AckReq.
  bool WindowClosed(uint32_t limit) const {
    const uint32_t in_flight = InFlight();
    return in_flight >= limit &&
           (in_flight == 0 || unacked_since_request < in_flight);
  }

  // The time-out begins again: the first packet was sent, or one was
  // acknowledged.
  void ArmTimer(Time now) {
    retry_at =
        config.timeout.ns() == 0 ? Time::Infinite() : now + config.timeout;
    probes = 0;
    ArmProbe(now);
  }
  // The peer is silent: each probe waits twice as long as the previous one.
  void ArmProbe(Time now) {
    constexpr uint8_t kDoublings = 10;
    // Alone on a path whose round trip is unknown, it delays no other queue
    // pair.
    if (!path->round_trip.known() && path->users == 1) {
      act_at = Time::Infinite();
    } else {
      act_at = now + ProbeAfter() * (1 << std::min(probes, kDoublings));
    }
  }
  void StopTimer() { retry_at = act_at = Time::Infinite(); }
  // The time-out, or an earlier action.
  Time deadline() const { return std::min(retry_at, act_at); }
  Duration ProbeAfter() const {
    const cc::RoundTripEstimate& round_trip = path->round_trip;
    if (!round_trip.known()) {
      const Duration half = Duration::Nanoseconds(config.timeout.ns() / 2);
      return half.ns() == 0 ? kFirstProbe : std::min(kFirstProbe, half);
    }
    return round_trip.smoothed() + round_trip.longest() + kSlack;
  }
  // The time by which an answer to a resent packet arrives.
  Time RepairUntil(Time now) const {
    return now + path->round_trip.longest() + kSlack;
  }
  Time NextDeadline() const {
    if (__builtin_expect(!pace_waiting, 1)) return deadline();
    return std::min(deadline(), paced_until);
  }

  // Back to the oldest unacknowledged packet (go-back-N). Work requests in
  // flight are resent from there.
  [[gnu::cold, gnu::noinline]] void RewindToUna() {
    for (uint32_t i = una; i != assigned; ++i) RecordOf(i).reads_in_flight = 0;
    reads_in_flight = 0;
    timer.OnResend(sent_psn);
    silent = false;
    repair = Repair::kNone;
    probe = Probe::kNone;
    MUTATION_SKIPS(gaps_outlive_going_back)
    EndRecovery();
    SeekTransmit();
  }

  // The state of a selective repair; begins one if there is none. Null: the
  // queue pair cannot have one now.
  [[gnu::cold, gnu::noinline]] Recovery* Recover() {
    if (recovery != nullptr) return recovery;
    recovery = pool->TakeRecovery();
    if (recovery == nullptr) return nullptr;
    recovery->gaps.Start(una_psn);
    return recovery;
  }
  // Forgets the gaps, and drops the held responses.
  void EndRecovery() {
    if (__builtin_expect(recovery == nullptr, 1)) return;
    recovery->gaps.Start(una_psn);
    recovery->responses.Drop();
    ReturnRecovery();
  }
  // Returns the recovery state to the pool if it is empty. Frames of responses
  // that are being executed are needed until then.
  void ReturnRecovery() {
    not_under_way = recovery->gaps.NotUnderWay(una_psn);
    if (!recovery->gaps.empty() || !recovery->responses.idle()) return;
    pool->Return(recovery);
    recovery = nullptr;
    not_under_way = 0;
  }

  // Local operations complete when everything before them has. They own no
  // PSNs: after a rewind, `una` may pass `next` here although una_psn does not
  // pass tx_psn.
  void SkipExecuted() {
    if (__builtin_expect(!any_executed, 1)) return;
    while (una != assigned && RecordOf(una).executed()) ++una;
    any_executed = una != assigned;
    MUTATION_SKIPS(completes_local_requests_too_far)
    if (static_cast<int32_t>(una - next) > 0) SeekTransmit();
  }

  // Moves the transmit position to una_psn: forward (a late ACK after a rewind)
  // or back (a rewind).
  void SeekTransmit() {
    next = una;
    tx_psn = una_psn;
    current_index_valid = false;
    next_offset = 0;
    if (next != assigned) {
      const SendRecord& record = RecordOf(next);
      next_offset = MUTATION(
          resumes_at_start,
          static_cast<uint32_t>(una_psn - record.first_psn) * config.mtu, 0);
    }
  }

  // Work request `index` ends in error once all before it are complete. From it
  // on, nothing more is transmitted or acknowledged.
  [[gnu::cold, gnu::noinline]] void FailAt(uint32_t index, uint8_t status,
                                           RxVerdict cause) {
    if (failed && static_cast<int32_t>(index - failed_index) >= 0) return;
    failed = true;
    failed_index = index;
    failed_status = status;
    failed_cause = cause;
    MUTATION_SKIPS(passes_failed_request)
    for (; static_cast<int32_t>(assigned - index) > 0; --assigned) {
      SendRecord& record = RecordOf(assigned - 1);
      reads_in_flight -= record.reads_in_flight;
      record.reads_in_flight = 0;
    }
    if (static_cast<int32_t>(next - index) > 0) next = index;
    if (static_cast<int32_t>(una - index) > 0) una = index;
    EndRecovery();  // it may name packets that are no longer sent
    probe = Probe::kNone;
  }

  // Ordered by how often they are touched: a packet of a short request needs
  // only the first cache lines (bench/lines.py).
  WorkQueueView sq;
  SendRecord* records;  // one per entry of the ring
  mem::MrTable* mrs;
  QpLimits limits;

  QpConfig config;
  Time retry_at = Time::Infinite();  // the time-out
  // When a doubted NAK is believed, a gap becomes due, a repair has taken too
  // long, or a probe is due.
  Time act_at = Time::Infinite();

  uint32_t head = 0;
  uint32_t una = 0;
  uint32_t next = 0;
  uint32_t assigned = 0;
  uint32_t posted = 0;       // as last seen
  uint32_t next_offset = 0;  // bytes of `next` already transmitted
  Psn una_psn;
  Psn tx_psn;
  Psn sent_psn;  // one past the highest PSN ever transmitted
  Psn next_psn;  // the first PSN of the next new work request
  // If it is beyond una_psn: everything before it is acknowledged, except for
  // reads and atomics whose responses are missing.
  Psn acked_end;
  uint32_t reads_in_flight = 0;  // reads and atomics, limited by max_rd_atomic
  uint32_t unacked_since_request = 0;  // packets since the last AckReq
  // How many of una_psn..tx_psn are missing or held (Gaps::NotUnderWay).
  uint32_t not_under_way = 0;
  uint32_t published = 0;    // head, as the program knows it
  uint32_t drain_limit = 0;  // with `draining`: start nothing from here on
  uint32_t failed_index = 0;

  uint8_t retries_left = 0;
  uint8_t rnr_retries_left = 0;
  bool rnr_waiting = false;
  bool pace_waiting = false;        // until paced_until
  bool lost_response_seen = false;  // until the next progress or timeout
  bool any_executed = false;  // a request in una..assigned may be `executed`
  bool running = false;       // RTS, or SQD with work to finish
  bool draining = false;
  bool failed = false;
  bool flushing = false;  // state ERR: everything posted is flushed
  Repair repair = Repair::kNone;
  Probe probe = Probe::kNone;
  uint8_t probes = 0;     // since something was acknowledged
  uint8_t nak_doubt = 0;  // losses until sequence NAKs are trusted again
  bool silent = false;    // a probe was not answered
  bool marked = false;    // "congestion experienced" on data that we read
  // The peer marks responses to marked requests: it answers any part of a read.
  bool peer_repeats_parts = false;
  bool current_index_valid = false;
  uint8_t failed_status = 0;
  RxVerdict failed_cause = RxVerdict::kAccept;

  // Every unacknowledged packet was last sent at or after this: the time of the
  // first packet after an idle period, or of the latest rewind.
  Time sent_since;

  // Null: nothing is known to be missing.
  Recovery* recovery = nullptr;
  RecoveryPool* pool;
  Psn probe_end;  // with a probe: the end of what was sent before it

  // The path does the congestion control. The pacer enforces our static rate.
  // `path` is null until the queue pair joins one, which it does before RTS.
  cc::SharedPath* path = nullptr;
  uint32_t charged = 0;  // our part of path->under_way
  uint32_t granted = 0;  // packets that we may send, because we have waited
  cc::RoundTripTimer<Psn> timer;
  cc::Pacer pacer;
  // With pace_waiting. (Others may move the path's time meanwhile.)
  Time paced_until;
  RequesterCounters counters;  // never reset

  // With current_index_valid: the work request under transmission, read once
  // from the ring.
  SendRequest current;
  // The end of the response data that has been placed, as a position in the
  // scatter list; and the value of the latest atomic response.
  SgeCursor scattered;
  uint64_t atomic_value = 0;
};

}  // namespace urnic::rc
