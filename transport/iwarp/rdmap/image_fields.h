#pragma once

// The lists of members of an iWARP queue pair (transport/work/image_codec.h).
//
// The requests are in the program's ring and are read again. The current place
// in the sink of a read is computed again. Requester and responder have the
// same configuration, so the image has it once.

#include <algorithm>

#include "transport/iwarp/rdmap/qp.h"
#include "transport/work/image_codec.h"
#include "transport/work/image_fields.h"

namespace urnic {

template <>
struct FieldsOf<ddp::UntaggedQueue> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, msn, offset);
    f("msn", msn);
    f("offset", offset);
    f.Require(offset <= URNIC_MAX_MESSAGE_BYTES, "offset", offset,
              "is more than a message can have");
  }
};

template <>
struct FieldsOf<rdmap::Config> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, access, ird, ord, keep_bytes, immediate);
    static constexpr const char* kKinds[] = {"none", "rfc7306", "merged"};
    f.Hex("access", access);
    f("ird", ird);
    f("ord", ord);
    f("keep_bytes", keep_bytes);
    f("immediate", immediate, rdmap::ImmediateData::kMerged, kKinds);
  }
};

template <>
struct FieldsOf<rdmap::SendRecord> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, original, bytes, msn, opcode, signaled, solicited,
                  acked, answered);
    f("original", original);
    f("bytes", bytes);
    f("msn", msn);
    f("opcode", opcode);
    f("signaled", signaled);
    f("solicited", solicited);
    f("acked", acked);
    f("answered", answered);
  }
};

template <>
struct FieldsOf<rdmap::Requester> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, sq, records, mrs, limits, config, head, una, next,
                  posted, offset, published, next_send_msn, next_read_msn,
                  running, begun, immediate_due, rtr_read, answer, received,
                  reads_in_flight, scattered, failed, flushing, fatal,
                  failed_status, failed_cause, failed_index, current, resent);
    // It lags behind until the next answer comes.
    uint32_t waiting = static_cast<int32_t>(head - answer) > 0 ? head : answer;
    f("head", head);
    f("una", una);
    f("next", next);
    f("offset", offset);
    f("next_send_msn", next_send_msn);
    f("next_read_msn", next_read_msn);
    f("running", running);
    f("begun", begun);
    f("immediate_due", immediate_due);
    f("rtr_read", rtr_read);
    f("answer", waiting);
    f("received", received);
    f("reads_in_flight", reads_in_flight);
    f("failed", failed);
    f("flushing", flushing);
    f("failed_status", failed_status, uint8_t{UINT8_MAX},
      kCompletionStatusNames);
    f("failed_cause", failed_cause, RxVerdict{kRxVerdictCount - 1},
      kRxVerdictNames);
    f("failed_index", failed_index);
    f.Group("qp_config", config);
    // Set at creation, derived, read or found again, or valid only during a
    // call.
    f.Elsewhere(sq, records, mrs, limits, posted, published, scattered, fatal,
                current, resent);
    if constexpr (F::kReads) answer = waiting;
    // Otherwise the number of records would be unknown.
    const uint32_t all = next - head + (begun ? 1 : 0);
    f.Require(next - head <= sq.entries() && all <= sq.entries(), "next", next,
              "is farther from head than the ring's length");
    f.Require(una - head <= next - head, "una", una, "is not in head..next");
    for (uint32_t i = 0; f.ok() && i != all; ++i) {
      f.Element("record", s.RecordOf(head + i));
    }
  }
  static void Check(ImageReader& f, const rdmap::Requester& r, QpState state);
};

template <>
struct FieldsOf<MaskedAtomic> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, original, kind, swap_or_add, mask, compare,
                  compare_mask);
    static constexpr const char* kKinds[] = {"fetch_add", "compare_swap"};
    f("original", original);
    f("kind", kind, MaskedAtomic::Kind::kCompareSwap, kKinds);
    f("swap_or_add", swap_or_add);
    f.Hex("mask", mask);
    f("compare", compare);
    f.Hex("compare_mask", compare_mask);
  }
};

template <>
struct FieldsOf<rdmap::Answer> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, kind, stag, address, bytes, sink_stag, sink_offset,
                  request_id, msn, masked);
    static constexpr const char* kKinds[] = {"read", "atomic"};
    f("kind", kind, rdmap::Answer::Kind::kAtomic, kKinds);
    f.Hex("stag", stag);
    f.Hex("address", address);
    f("bytes", bytes);
    f.Hex("sink_stag", sink_stag);
    f.Hex("sink_offset", sink_offset);
    f("request_id", request_id);
    f("msn", msn);
    f.Group("atomic", masked);
  }
};

template <>
struct FieldsOf<rdmap::Responder> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, mrs, rq, stream, config, answers, mask, first, cut, end,
                  offset, next_answer_msn, known_sends, send_opcode,
                  recv_status, immediate_expected, after_write, held_bytes,
                  write_bytes, last_write_bytes, refused, refused_request);
    f("first", first);
    f("cut", cut);
    f("end", end);
    f("offset", offset);
    f("next_answer_msn", next_answer_msn);
    f("known_sends", known_sends);
    f("send_opcode", send_opcode);
    f("recv_status", recv_status, uint8_t{UINT8_MAX}, kCompletionStatusNames);
    f("immediate_expected", immediate_expected);
    f("after_write", after_write);
    f("held_bytes", held_bytes);
    f("write_bytes", write_bytes);
    f("last_write_bytes", last_write_bytes);
    f.Elsewhere(mrs, stream, config, answers, mask);
    f.Elsewhere(refused, refused_request);  // reported when it happened
    f.Group("receive_queue", *rq);
    f.Require(end - first <= mask + 1, "end", end,
              "is farther from first than the number of answers");
    f.Require(cut - first <= end - first, "cut", cut, "is not in first..end");
    for (uint32_t i = first; f.ok() && i != end; ++i) {
      f.Element("answer", answers[i & mask]);
    }
  }
  static void Check(ImageReader& f, const rdmap::Responder& r, bool alive);
};

template <>
struct FieldsOf<rdmap::Qp> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, limits, requester, responder, queues, state, event,
                  answered_last, terminated, peers_error, refused_by_peer,
                  terminate_due, rtr_due, rtr, rtr_msn, terminate_bytes,
                  terminate);
    static constexpr const char* kRtrs[] = {"write", "read"};
    f.Elsewhere(limits);  // in the shape
    // Counted and reported when it arrived.
    f.Elsewhere(peers_error, refused_by_peer);
    f("state", state, QpState::kErr, kQpStateNames);
    f("event", event, QpEvent::kLastWqeReached, kQpEventNames);
    f("answered_last", answered_last);
    f("terminated", terminated);
    f("terminate_due", terminate_due);
    f("rtr_due", rtr_due);
    f("rtr", rtr, rdmap::Rtr::kRead, kRtrs);
    f("rtr_msn", rtr_msn);
    f("terminate_bytes", terminate_bytes);
    f.Elsewhere(terminate, queues);
    if (!f.Require(terminate_bytes <= sizeof(terminate), "terminate_bytes",
                   terminate_bytes, "is more than a Terminate has")) {
      return;
    }
    f.Octets("terminate", std::span(terminate).first(terminate_bytes));
    for (auto& queue : queues) f.Element("queue", queue);
    f.Group("requester", requester);
    if constexpr (F::kReads) responder.config_ = requester.config_;
    f.Group("responder", responder);
  }
  static ImageShape ShapeOf(const rdmap::Qp& qp) {
    return {.limits = qp.limits_,
            .sq_entries = qp.requester_.sq_.entries(),
            .replay_slots = std::min(Answers(qp), URNIC_MAX_RD_ATOMIC),
            .shared_receives = qp.responder_.rq_->shared()};
  }
  // How many answers it has room for.
  static uint32_t Answers(const rdmap::Qp& qp) {
    return qp.responder_.mask_ + 1;
  }
  // Checks the rules between the members.
  static void Check(ImageReader& f, const rdmap::Qp& qp);
  // The length of the ULPDU that Build() makes of this source, now and later.
  // 0: none, Build() fails. UINT32_MAX: the source is impossible.
  static uint32_t UlpduBytes(const rdmap::Qp& qp, uint64_t source);
  // Whether Qp::SmallAfter() may be called.
  static bool HasSmallAfter(const rdmap::Qp& qp, uint64_t source);
  // Whether the payload of this segment can have been placed before its turn.
  static bool MayBeEarly(const ddp::ReceivedSegment& segment) {
    return rdmap::Qp::VersionOk(segment) && rdmap::Qp::IsPlaceable(segment) &&
           (segment.tagged() ||
            segment.offset + segment.payload_bytes <= URNIC_MAX_MESSAGE_BYTES);
  }
  // Continues with the program's rings.
  static void Attach(ImageReader& f, rdmap::Qp& qp);
};

}  // namespace urnic
