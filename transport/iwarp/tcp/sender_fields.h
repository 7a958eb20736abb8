#pragma once

// The lists of members of a sender (transport/work/image_codec.h).

#include "transport/cc/image_fields.h"
#include "transport/iwarp/tcp/sender.h"
#include "transport/work/image_codec.h"

namespace urnic {

namespace tcp {
// A connection has no longer durations than this; sums of some of them do not
// overflow.
inline constexpr Duration kLongestDuration = Duration::Seconds(60 * 86400);
// The largest window that a peer can offer.
inline constexpr uint32_t kLargestWindow = uint32_t{UINT16_MAX}
                                           << wire::kTcpMaxWindowShift;

// Refuses a duration that is longer.
template <typename F>
void RequireShort(F& f, const char* name, Duration duration) {
  f.Require(duration <= kLongestDuration, name,
            static_cast<uint64_t>(duration.ns()), "is too long");
}
}  // namespace tcp

template <>
struct FieldsOf<tcp::Chunk> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, source, bytes);
    f.Hex("source", source);
    f("bytes", bytes);
  }
};

// The scoreboard's lists determine the state of a record.
template <>
struct FieldsOf<tcp::SegmentRecord> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    // Not URNIC_MEMBERS: it makes references, and there are bit-fields.
    auto& [source, sent, seq, offset, bytes, next, state, resent, fin, last,
           prev] = s;
    f.CountMembers(11);
    bool was_resent = resent != 0;
    bool has_fin = fin != 0;
    bool is_last = last != 0;
    f.Hex("source", source);
    f.Since("sent", sent, true);
    f("seq", seq);
    f("offset", offset);
    f("bytes", bytes);
    f("resent", was_resent);
    f("fin", has_fin);
    f("last", is_last);
    f.Elsewhere(next, prev, state);
    if constexpr (F::kReads) {
      resent = was_resent;
      fin = has_fin;
      last = is_last;
    }
  }
};

template <>
struct FieldsOf<tcp::SegmentRing> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, records, mask, capacity, first, end, slab, block, order,
                  max_order);
    uint32_t count = end - first;
    f("first", first);
    f("count", count);  // for the end
    f.Elsewhere(records, mask, capacity, slab, block, order, max_order);
    if constexpr (F::kReads) end = first;
    for (uint32_t i = 0; f.ok() && i != count; ++i) {
      if constexpr (F::kReads) {
        if (!f.Require(s.MakeRoom(), "count", count,
                       "is more than there is room for")) {
          return;
        }
        s.Push();
      }
      f.Element("segment", s.at(first + i));
    }
  }
};

template <>
struct FieldsOf<tcp::Rack> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, sent, end, rtt, forward_ack, dsack_round, known,
                  reordering_seen, in_dsack_round, multiple, persist);
    f("known", known);
    f.Since("sent", sent, known);
    f("end", end);
    f("rtt", rtt);
    f("forward_ack", forward_ack);
    f("dsack_round", dsack_round);
    f("reordering_seen", reordering_seen);
    f("in_dsack_round", in_dsack_round);
    f("multiple", multiple);
    f("persist", persist);
    tcp::RequireShort(f, "rtt", rtt);
  }
};

// The lists are carried in their order, as places in the ring. Records in
// neither of them are SACKed. The sums are made again.
template <>
struct FieldsOf<tcp::Scoreboard> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, rack, ring, in_flight, lost, pipe, sacked_bytes,
                  sacked_segments);
    f.Group("rack", rack);
    f.Group("segments", ring);
    f.Elsewhere(pipe, sacked_bytes, sacked_segments);
    if constexpr (F::kReads) {
      for (uint32_t i = 0; i != ring.size(); ++i) {
        ring.at(ring.first() + i).state = tcp::SegmentRecord::kSacked;
      }
    }
    VisitList(f, s, "in_flight", in_flight, tcp::SegmentRecord::kInFlight);
    VisitList(f, s, "lost", lost, tcp::SegmentRecord::kLost);
    if constexpr (F::kReads) {
      if (f.ok()) Derive(s);
    }
  }

 private:
  template <typename F, typename S, typename List>
  static void VisitList(F& f, S& s, const char* name, List& list,
                        uint32_t state) {
    uint32_t count = list.count;
    uint32_t number = list.head;
    f(name, count);
    for (uint32_t i = 0; f.ok() && i != count; ++i) {
      uint32_t place = number - s.ring_.first();
      f.Extra(name, place);
      if constexpr (F::kReads) {
        number = s.ring_.first() + place;
        if (!f.Require(
                place < s.ring_.size() &&
                    s.ring_.at(number).state == tcp::SegmentRecord::kSacked,
                name, place, "is not a segment, or is there twice")) {
          return;
        }
        const bool in_order =
            list.count == 0 || state != tcp::SegmentRecord::kInFlight ||
            s.ring_.at(list.tail).sent <= s.ring_.at(number).sent;
        f.Require(in_order, name, place, "was sent before the one in front");
        s.ring_.at(number).state = state & 3;
        s.PushBack(list, number);
      } else {
        number = s.Full(s.ring_.at(number).next);
      }
    }
  }
  template <typename S>
  static void Derive(S& s) {
    for (uint32_t number = s.ring_.first(); number != s.ring_.end(); ++number) {
      auto& record = s.ring_.at(number);
      if (record.state == tcp::SegmentRecord::kInFlight) {
        s.pipe_ += record.seq_bytes();
      } else if (record.state == tcp::SegmentRecord::kSacked) {
        record.next = (number + 1) & S::kLinkMask;
        s.sacked_bytes_ += record.seq_bytes();
        ++s.sacked_segments_;
      }
    }
  }
};

template <>
struct FieldsOf<tcp::PeerWindow> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, wl1, wl2, bytes, largest);
    f("wl1", wl1);
    f("wl2", wl2);
    f("bytes", bytes);
    f("largest", largest);
    f.Require(largest <= tcp::kLargestWindow, "largest", largest,
              "is more than a window can be");
    f.Require(bytes <= largest, "bytes", bytes, "is more than the largest");
  }
};

template <>
struct FieldsOf<tcp::WindowedMin> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, current, before, since);
    f("current", current);
    f("before", before);
    f.Since("since", since, current.ns() != 0);
    tcp::RequireShort(f, "current", current);
    tcp::RequireShort(f, "before", before);
  }
};

template <>
struct FieldsOf<tcp::RoundTrip> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, smoothed, variance, initial, shortest, back_off, fresh);
    f("smoothed", smoothed);
    f("variance", variance);
    f("initial", initial);
    f("back_off", back_off);
    f("fresh", fresh);
    f.Group("shortest", shortest);
    tcp::RequireShort(f, "smoothed", smoothed);
    tcp::RequireShort(f, "variance", variance);
    tcp::RequireShort(f, "initial", initial);
    f.Require(back_off <= tcp::RoundTrip::kMaxBackOff, "back_off", back_off,
              "is more than the limit");
  }
};

template <>
struct FieldsOf<tcp::RateReduction> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, flight, target, delivered, out, quota);
    f("flight", flight);
    f("target", target);
    f("delivered", delivered);
    f("out", out);
    f("quota", quota);
    f.Require(flight != 0, "flight", 0, "must not be 0");
  }
};

template <>
struct FieldsOf<tcp::Episode> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, begin, until, first_end, first_timestamp, unexplained,
                  open, resent, echo_judged, repaired);
    f("begin", begin);
    f("until", until);
    f("first_end", first_end);
    f("first_timestamp", first_timestamp);
    f("unexplained", unexplained);
    f("open", open);
    f("resent", resent);
    f("echo_judged", echo_judged);
    f("repaired", repaired);
  }
};

template <>
struct FieldsOf<tcp::ForwardRto> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, step, new_left);
    static constexpr const char* kSteps[] = {"off", "head_resent", "new_sent"};
    f("step", step, tcp::ForwardRto::kNewSent, kSteps);
    f("new_left", new_left);
    f.Require(new_left <= tcp::ForwardRto::kNewSegments, "new_left", new_left,
              "is more than are sent");
  }
};

template <>
struct FieldsOf<tcp::TailProbe> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, end, in_flight, resent, due);
    f("end", end);
    f("in_flight", in_flight);
    f("resent", resent);
    f("due", due);
  }
};

template <>
struct FieldsOf<tcp::SenderConfig> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, mss, sack, timestamps, ecn, paced, max_order, clock,
                  initial_timeout, max_ack_delay);
    f("mss", mss);
    f("sack", sack);
    f("timestamps", timestamps);
    f("ecn", ecn);
    f("max_order", max_order);
    f("initial_timeout", initial_timeout);
    f("max_ack_delay", max_ack_delay);
    f.Elsewhere(paced, clock);  // the connection's
    f.Require(mss != 0 && mss <= UINT16_MAX, "mss", mss, "is not a size");
    f.Require(max_order <= tcp::SegmentSlab::kMaxOrder, "max_order", max_order,
              "is more than the limit");
    tcp::RequireShort(f, "initial_timeout", initial_timeout);
    tcp::RequireShort(f, "max_ack_delay", max_ack_delay);
  }
};

template <>
struct FieldsOf<tcp::SenderCounters> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, segments, retransmissions, bytes_acked, timeouts,
                  recoveries, undone, tail_probes, window_probes,
                  ecn_reductions, unsent_acks, dsacks, bad_sacks, reneged,
                  no_records);
    // They stay where they were counted.
    f.Elsewhere(segments, bytes_acked, ecn_reductions, dsacks);
    f("retransmissions", retransmissions);
    f("timeouts", timeouts);
    f("recoveries", recoveries);
    f("undone", undone);
    f("tail_probes", tail_probes);
    f("window_probes", window_probes);
    f("unsent_acks", unsent_acks);
    f("bad_sacks", bad_sacks);
    f("reneged", reneged);
    f("no_records", no_records);
  }
};

template <>
struct FieldsOf<tcp::Sender<cc::TcpCongestion>::State> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    using Phase = tcp::Sender<cc::TcpCongestion>::Phase;
    URNIC_MEMBERS(f, s, una, nxt, peer, round_trip, rounds, phase, recover,
                  reduction, episode, forward, timeout_una, probe, pending,
                  pending_offset, in_pieces, pieces_of, pieces_end, duplicates,
                  timeouts, finishing, fin_sent, force_head, persisting,
                  override_due, window_probe_due, cwr_due, resent,
                  mtu_probe_bytes, mtu_probe_number, mtu_probe, mtu_probe_fate,
                  largest_delivered, ecn_point, timeout_at, probe_at,
                  reorder_at, resume_at);
    static constexpr const char* kPhases[] = {"open", "recovery", "timeout"};
    static constexpr const char* kFates[] = {"none", "arrived", "lost",
                                             "unclear"};
    f("una", una);
    f("nxt", nxt);
    f("phase", phase, Phase::kTimeout, kPhases);
    f("recover", recover);
    f("timeout_una", timeout_una);
    f("pending_offset", pending_offset);
    f("in_pieces", in_pieces);
    f("pieces_of", pieces_of);
    f("pieces_end", pieces_end);
    f("duplicates", duplicates);
    f("timeouts", timeouts);
    f("finishing", finishing);
    f("fin_sent", fin_sent);
    f("force_head", force_head);
    f("persisting", persisting);
    f("override_due", override_due);
    f("window_probe_due", window_probe_due);
    f("cwr_due", cwr_due);
    f("resent", resent);
    f("mtu_probe_bytes", mtu_probe_bytes);
    f("mtu_probe_number", mtu_probe_number);
    f("mtu_probe", mtu_probe);
    f("mtu_probe_fate", mtu_probe_fate, tcp::MtuProbeFate::kUnclear, kFates);
    f("largest_delivered", largest_delivered);
    f("ecn_point", ecn_point);
    f.Deadline("timeout_at", timeout_at);
    f.Deadline("probe_at", probe_at);
    f.Deadline("reorder_at", reorder_at);
    f.Deadline("resume_at", resume_at);
    f.Group("pending", pending);
    f.Group("peer", peer);
    f.Group("round_trip", round_trip);
    f.Group("rounds", rounds);
    f.Group("reduction", reduction);
    f.Group("episode", episode);
    f.Group("forward", forward);
    f.Group("probe", probe);
    f.Require(mtu_probe_bytes <= UINT16_MAX, "mtu_probe_bytes", mtu_probe_bytes,
              "is not a size");
  }
};

template <>
struct FieldsOf<tcp::Sender<cc::TcpCongestion>> {
  using Sender = tcp::Sender<cc::TcpCongestion>;

  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, congestion, config, state, board, counters,
                  round_trips);
    f.Group("sender_config", config);
    if constexpr (F::kReads) board.ring_.max_order_ = config.max_order;
    f.Group("sender", state);
    f.Group("scoreboard", board);
    f.Group("cc", congestion);
    f.Group("sender_counters", counters);
    // Measurements stay at this place.
    f.Elsewhere(round_trips);
  }
  // Of a sender that has begun.
  static void Check(ImageReader& f, const Sender& s);

  // Calls chunk(SeqNum begin, uint64_t source, uint32_t bytes, bool begun) for
  // each chunk that is not acknowledged as a whole, in order. `begun`: some of
  // it has been sent. REQUIRES: Check() has accepted it.
  template <typename Visitor>
  static void ForChunks(const Sender& s, Visitor&& chunk) {
    const tcp::SegmentRing& ring = s.board_.ring();
    for (uint32_t number = ring.first(); number != ring.end(); ++number) {
      const tcp::SegmentRecord& record = ring.at(number);
      if (!record.last) continue;
      chunk(record.seq + (0u - record.offset), record.source,
            uint32_t{record.offset} + record.bytes, true);
    }
    const auto& state = s.state_;
    if (state.pending.bytes == 0) return;
    chunk(state.nxt + (0u - state.pending_offset), state.pending.source,
          state.pending.bytes, state.pending_offset != 0);
  }

 private:
  static void CheckPieces(ImageReader& f, const Sender& s);
  static void CheckProbe(ImageReader& f, const Sender& s);
};

}  // namespace urnic
