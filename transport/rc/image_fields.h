#pragma once

// The lists of members of an RC queue pair, and what must hold between them.

#include "ras/metrics/counters.h"
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
                  reads_in_flight, executed);
    f("first_psn", first_psn);
    f("packets", packets);
    f("length", length);
    f("opcode", opcode);
    f("signaled", signaled);
    f("reads_in_flight", reads_in_flight);
    f("executed", executed);
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
    URNIC_MEMBERS(f, s, sq, records, mrs, limits, config, deadline, head, una,
                  next, assigned, posted, next_offset, una_psn, tx_psn,
                  sent_psn, next_psn, reads_in_flight, read_packets,
                  unacked_since_request, published, drain_limit, failed_index,
                  retries_left, rnr_retries_left, rnr_waiting, pace_waiting,
                  lost_response_seen, any_executed, running, draining, failed,
                  flushing, repair, nak_doubt, marked, current_index_valid,
                  failed_status, failed_cause, sent_since, sampler, cc,
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
    f("reads_in_flight", reads_in_flight);
    f("read_packets", read_packets);
    f("unacked_since_request", unacked_since_request);
    f("retries_left", retries_left);
    f("rnr_retries_left", rnr_retries_left);
    f("rnr_waiting", rnr_waiting);
    f("pace_waiting", pace_waiting);
    f("lost_response_seen", lost_response_seen);
    f("running", running);
    f("draining", draining);
    f("failed", failed);
    f("flushing", flushing);
    static constexpr const char* kRepairs[] = {"none", "timeout", "nak",
                                               "nak_waits"};
    f("repair", repair, rc::Repair::kNakWaits, kRepairs);
    f("nak_doubt", nak_doubt);
    f("marked", marked);
    f("failed_status", failed_status, uint8_t{UINT8_MAX},
      kCompletionStatusNames);
    f("failed_cause", failed_cause, RxVerdict{kRxVerdictCount - 1},
      kRxVerdictNames);
    f("failed_index", failed_index);
    f.Deadline("deadline", deadline);
    f.Since("sent_since", sent_since, sent_psn != una_psn);
    f.Group("cc", cc);
    f.Group("sampler", sampler);
    f.Group("counters", counters);
    // Set at creation, derived, read or found again, or valid only during a
    // burst.
    f.Elsewhere(limits, sq, records, mrs, posted, published, any_executed,
                current_index_valid, current, scattered, atomic_value);
    // Otherwise the number of records would be unknown.
    const uint32_t all = assigned - head;
    f.Require(all <= sq.entries(), "assigned", assigned,
              "is farther from head than the ring's length");
    f.Require(una - head <= all, "una", una, "is not in head..assigned");
    f.Require(next - una <= assigned - una, "next", next,
              "is not in una..assigned");
    for (uint32_t i = head; f.ok() && i != assigned; ++i) {
      f.Element("record", s.RecordOf(i));
    }
  }
  static bool Check(ImageReader& f, const rc::SendState& s, QpState state);
};

template <>
struct FieldsOf<rc::ReplaySlot> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, kind, pending, answered, msn, first_psn, packets,
                  address, rkey, pd, length, answer_begin, answer_next,
                  answer_end, original);
    static constexpr const char* kKinds[] = {"free", "read", "atomic", "empty"};
    f("kind", kind, rc::ReplaySlot::Kind::kEmpty, kKinds);
    f("pending", pending);
    f("answered", answered);
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
    f("original", original);
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
struct FieldsOf<rc::Responder::RemoteRange> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, address, length, key);
    f.Hex("address", address);
    f("length", length);
    f("key", key);
  }
};

template <>
struct FieldsOf<rc::Responder> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, replay, notifier, write, nak_psn, dropped_psn, mrs, rq,
                  qpn, pd, dest_qpn, mtu, access, pkey, min_rnr_timer, xrc,
                  message, receiving, established, gap_reported, ack_due,
                  failed, nak_due, recv_status, event, expected, msn, offset);
    f("pd", pd);
    f("expected", expected);
    f("msn", msn);
    static constexpr const char* kMessages[] = {"none", "send", "write"};
    f("message", message, rc::Responder::Message::kWrite, kMessages);
    f("receiving", receiving);
    f("established", established);
    f("gap_reported", gap_reported);
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
    // Copied from limits and configuration, and a pointer.
    f.Elsewhere(mrs, qpn, dest_qpn, mtu, access, pkey, min_rnr_timer, xrc);
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
