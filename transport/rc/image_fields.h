#pragma once

// The lists of members of an RC queue pair, and the rules between the members.

#include "ras/metrics/counters.h"
#include "transport/base/mutation.h"
#include "transport/cc/image_fields.h"
#include "transport/rc/qp.h"
#include "transport/work/image_codec.h"
#include "transport/work/image_fields.h"

namespace urnic {

template <>
struct FieldsOf<rc::SendRecord> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, first_psn, packets, length, opcode, signaled,
                  reads_in_flight, part_shift);
    f("first_psn", first_psn);
    f("packets", packets);
    f("length", length);
    f("opcode", opcode);
    f("signaled", signaled);
    f("reads_in_flight", reads_in_flight);
    f("part_shift", part_shift);
  }
};

template <>
struct FieldsOf<RequesterCounters> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
#define URNIC_REQUESTER_COUNTER(name, text) f(#name, s.name);
#include "ras/metrics/requester_counters.def"
#undef URNIC_REQUESTER_COUNTER
    f.CountMembers(sizeof(s) / sizeof(uint64_t));
  }
};

template <>
struct FieldsOf<rc::SendState> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, sq, records, mrs, limits, config, retry_at, act_at,
                  head, una, next, assigned, posted, next_offset, una_psn,
                  tx_psn, sent_psn, next_psn, acked_end, reads_in_flight,
                  unacked_since_request, not_under_way, published, drain_limit,
                  failed_index, retries_left, rnr_retries_left, rnr_waiting,
                  pace_waiting, lost_response_seen, any_executed, running,
                  draining, failed, flushing, repair, probe, probes, nak_doubt,
                  silent, marked, peer_repeats_parts, current_index_valid,
                  failed_status, failed_cause, sent_since, recovery, pool,
                  probe_end, path, charged, granted, timer, pacer, paced_until,
                  counters, current, scattered, atomic_value);
    f.Group("config", config);
    f("head", head);
    f("una", una);
    f("next", next);
    f("assigned", assigned);
    f("drain_limit", drain_limit);
    f("next_offset", next_offset);
    f("una_psn", una_psn);
    f("tx_psn", tx_psn);
    f("sent_psn", sent_psn);
    f("next_psn", next_psn);
    f("acked_end", acked_end);
    f("reads_in_flight", reads_in_flight);
    f("unacked_since_request", unacked_since_request);
    f("retries_left", retries_left);
    f("rnr_retries_left", rnr_retries_left);
    f("rnr_waiting", rnr_waiting);
    f("lost_response_seen", lost_response_seen);
    f("running", running);
    f("draining", draining);
    f("failed", failed);
    f("flushing", flushing);
    static constexpr const char* kRepairs[] = {"none", "timeout", "nak",
                                               "nak_waits"};
    f("repair", repair, rc::Repair::kNakWaits, kRepairs);
    static constexpr const char* kProbes[] = {"none", "due", "sent",
                                              "answered"};
    f("probe", probe, rc::Probe::kAnswered, kProbes);
    f("probe_end", probe_end);
    f("probes", probes);
    f("nak_doubt", nak_doubt);
    f("silent", silent);
    f("marked", marked);
    f("peer_repeats_parts", peer_repeats_parts);
    f("failed_status", failed_status, uint8_t{UINT8_MAX},
      kCompletionStatusNames);
    f("failed_cause", failed_cause, RxVerdict{kRxVerdictCount - 1},
      kRxVerdictNames);
    f("failed_index", failed_index);
    MUTATION(images_forget_timers, f.Deadline("retry_at", retry_at),
             f.Elsewhere(retry_at));
    f.Deadline("act_at", act_at);
    f.Since("sent_since", sent_since, sent_psn != una_psn);
    VisitPath(f, s);
    f.Group("timer", timer);
    f.Group("pacer", pacer);
    f.Group("counters", counters);
    // Set at creation, derived, read or found again, or valid only during a
    // burst.
    f.Elsewhere(limits, sq, records, mrs, posted, published, any_executed,
                current_index_valid, current, scattered, atomic_value, recovery,
                pool, not_under_way, pace_waiting, paced_until, charged,
                granted);
    VisitRecords(f, s);
  }
  // A path that others use knows more than the image.
  template <typename F, typename S>
  static void VisitPath(F& f, S& s) {
    cc::SharedPath shown;
    if constexpr (!F::kReads) {
      if (s.path != nullptr) shown = *s.path;
    }
    f.Group("path", shown);
    if constexpr (F::kReads) {
      if (f.ok()) s.path->Adopt(shown);
    }
  }
  template <typename F, typename S>
  static void VisitRecords(F& f, S& s) {
    // Otherwise the number of records would be unknown.
    const uint32_t all = s.assigned - s.head;
    f.Require(all <= s.sq.entries(), "assigned", s.assigned,
              "is farther from head than the ring's length");
    f.Require(s.una - s.head <= all, "una", s.una, "is not in head..assigned");
    f.Require(s.next - s.una <= s.assigned - s.una, "next", s.next,
              "is not in una..assigned");
    for (uint32_t i = s.head; f.ok() && i != s.assigned; ++i) {
      f.Element("record", s.RecordOf(i));
    }
    // The list of gaps is not carried: at its destination the queue pair goes
    // back to the oldest unacknowledged packet.
    bool recovering = s.recovery != nullptr;
    f.Extra("recovering", recovering);
    if constexpr (F::kReads) {
      if (f.ok() && recovering) s.RewindToUna();
    }
  }
  static bool Check(ImageReader& f, const rc::SendState& s, QpState state);
};

template <>
struct FieldsOf<rc::ReplaySlot> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, kind, pending, answered, marked, msn, first_psn,
                  packets, address, rkey, pd, length, answer_begin, answer_next,
                  answer_end, original);
    static constexpr const char* kKinds[] = {"free", "read", "atomic", "empty"};
    f("kind", kind, rc::ReplaySlot::Kind::kEmpty, kKinds);
    f("pending", pending);
    f("answered", answered);
    f("marked", marked);
    f("msn", msn);
    f("first_psn", first_psn);
    f("packets", packets);
    f.Hex("address", address);
    f.Hex("rkey", rkey);
    f("pd", pd);
    f("length", length);
    f("answer_begin", answer_begin);
    f("answer_next", answer_next);
    f("answer_end", answer_end);
    MUTATION(images_forget_atomic_results, f("original", original),
             f.Elsewhere(original));
  }
};

template <>
struct FieldsOf<rc::ReplayRing> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, begin, end, first_pending, pending, limit, mask, slots);
    f("begin", begin);
    f("end", end);
    f("limit", limit);
    f.Elsewhere(first_pending, pending, mask, slots);
    f.Require(end - begin <= s.capacity(), "end", end,
              "is farther from begin than the number of slots");
    for (uint32_t i = begin; f.ok() && i != end; ++i) {
      f.Element("replay", slots[i & mask]);
    }
  }
};

template <>
struct FieldsOf<rc::Responder> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, replay, notifier, refused, write, nak_psn, dropped_psn,
                  held, pool, mrs, rq, qpn, pd, dest_qpn, mtu, access, pkey,
                  min_rnr_timer, xrc, message, receiving, established, reported,
                  peer_marks, ack_due, failed, nak_due, recv_status, event,
                  expected, msn, offset);
    f("pd", pd);
    f("expected", expected);
    f("msn", msn);
    static constexpr const char* kMessages[] = {"none", "send", "write"};
    f("message", message, rc::Responder::Message::kWrite, kMessages);
    f("receiving", receiving);
    f("established", established);
    static constexpr const char* kReports[] = {"nothing", "gap", "not_ready"};
    f("reported", reported, rc::Responder::Reported::kNotReady, kReports);
    f("peer_marks", peer_marks);
    f("ack_due", ack_due);
    f("failed", failed);
    f("nak_due", nak_due);
    f("nak_psn", nak_psn);
    f("dropped_psn", dropped_psn);
    f("recv_status", recv_status, uint8_t{UINT8_MAX}, kCompletionStatusNames);
    f("event", event, QpEvent::kLastWqeReached, kQpEventNames);
    f("offset", offset);
    f.Group("write", write);
    f.Group("replay", replay);
    f.Group("notifier", notifier);
    f.Group("receive_queue", *rq);
    // Copies of limits and configuration, and pointers. Held packets are not
    // carried: the peer sends them again.
    f.Elsewhere(held, pool, mrs, qpn, dest_qpn, mtu, access, pkey,
                min_rnr_timer, xrc);
    f.Elsewhere(refused);  // was reported when it happened
    f.Require(msn <= 0xffffff, "msn", msn, "is not an MSN");
  }
  // `send`: the other half, which has limits and configuration.
  static bool Check(ImageReader& f, const rc::Responder& r, QpState state,
                    const rc::SendState& send);
};

template <>
struct FieldsOf<rc::Qp> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, state, event, drain_reported, send, responder);
    f("state", state, QpState::kErr, kQpStateNames);
    f("drain_reported", drain_reported);
    f("event", event, QpEvent::kLastWqeReached, kQpEventNames);
    f.Group("send", send);
    f.Group("receive", responder);
  }
  static ImageShape ShapeOf(const rc::Qp& qp) {
    return {.service = QpService::kRc,
            .limits = qp.limits(),
            .sq_entries = qp.send_.sq.entries(),
            .replay_slots = qp.replay_capacity(),
            .shared_receives = qp.responder_.recv_queue().shared()};
  }
  static bool Check(ImageReader& f, const rc::Qp& qp);
  static void Derive(rc::Qp& qp);
  static void Attach(ImageReader& f, rc::Qp& qp);
};

}  // namespace urnic
