#pragma once

// The lists of members of congestion control (transport/work/image_codec.h).

#include "transport/cc/delay_window.h"
#include "transport/cc/flow_rounds.h"
#include "transport/cc/notification_point.h"
#include "transport/cc/reaction_point.h"
#include "transport/cc/round_trip_estimate.h"
#include "transport/cc/round_trip_timer.h"
#include "transport/cc/shared_path.h"
#include "transport/cc/tcp_congestion.h"
#include "transport/work/image_codec.h"

namespace urnic {

template <>
struct FieldsOf<cc::Pacer> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, cost, next_send);
    f("cost", cost);
    f.Require(cost <= uint64_t{1} << 56, "cost", cost, "is too large");
    // A burst makes up for a delay of up to kCatchUpMax, and for no more.
    Time spent = next_send + cc::Pacer::kCatchUpMax;
    f.Deadline("next_send", spent);
    f.Require(!spent.IsInfinite(), "next_send", UINT64_MAX, "is never");
    if constexpr (F::kReads) next_send = spent - cc::Pacer::kCatchUpMax;
  }
};

template <>
struct FieldsOf<cc::ReactionPoint> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, alpha, notified, notified_at);
    f("alpha", alpha);
    f.Require(alpha <= cc::ReactionPoint::kAll, "alpha", alpha, "is too large");
    f("notified", notified);
    f.Since("notified_at", notified_at, notified);
  }
};

template <>
struct FieldsOf<cc::DelayWindow> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, pacer, cwnd, quiet, limit, most, can_hold, full_packet,
                  before_cut, starting, cut, above, wire_shift, ack_shift,
                  competes, doubted, draining, competed, last_cut, round_trip,
                  row_least, row_since, slowed_from, slowed_ns, slowed_at,
                  shortest_ns, after_drain, shortest_drained, drained_before,
                  lost, heard, full_at, born_at, drained_at, lost_since, resume,
                  reaction, to_wall);
    f("cwnd", cwnd);
    f("quiet", quiet);
    f("limit", limit);
    f("most", most);
    f("can_hold", can_hold);
    f("full_packet", full_packet);
    f("before_cut", before_cut);
    f("starting", starting);
    f("cut", cut);
    f("competes", competes);
    f("doubted", doubted);
    f("draining", draining);
    f("competed", competed);
    f.Since("last_cut", last_cut, cut);
    f("round_trip", round_trip);
    f("slowed_from", slowed_from);
    f("slowed_ns", slowed_ns);
    f.Since("slowed_at", slowed_at, slowed_from != 0);
    f("shortest_ns", shortest_ns);
    f("after_drain", after_drain);
    f("shortest_drained", shortest_drained);
    f("drained_before", drained_before);
    f("lost", lost);
    f("heard", heard);
    f.Since("full_at", full_at, full_at.ns() != 0);
    f.Since("born_at", born_at, shortest_ns != 0);
    f.Since("drained_at", drained_at, shortest_ns != 0);
    f.Since("lost_since", lost_since, lost != 0);
    f("resume", resume);
    f.Group("reaction", reaction);
    // Members of the engine, members that follow from others, and a row, which
    // a move interrupts.
    f.Elsewhere(to_wall, wire_shift, ack_shift, pacer, above, row_least,
                row_since);
    VisitRules(f, s);
    if constexpr (F::kReads) {
      if (f.ok()) s.AfterMove();
    }
  }
  template <typename F, typename S>
  static void VisitRules(F& f, S& s) {
    constexpr uint32_t kMost =
        cc::DelayWindow::kMostPackets * cc::DelayWindow::kPacket;
    f.Require(s.most <= kMost, "most", s.most, "is too large");
    f.Require(s.can_hold <= kMost, "can_hold", s.can_hold, "is too large");
    f.Require(s.quiet <= s.limit && s.limit <= s.most, "limit", s.limit,
              "is not between quiet and most");
    f.Require(s.cwnd <= s.most, "cwnd", s.cwnd, "is more than most");
    f.Require(s.before_cut <= s.most, "before_cut", s.before_cut,
              "is more than most");
    f.Require(s.resume <= s.most, "resume", s.resume, "is more than most");
    f.Require(s.full_packet <= UINT16_MAX, "full_packet", s.full_packet,
              "is not a size");
    // Narrower than in the struct, and never reached.
    constexpr Duration kLongest = Duration::Nanoseconds(UINT32_MAX);
    f.Require(s.round_trip <= kLongest, "round_trip",
              static_cast<uint64_t>(s.round_trip.ns()), "is too long");
    if (s.most == 0) return;
    f.Require(s.quiet >= cc::DelayWindow::kPacket, "quiet", s.quiet,
              "is less than a packet");
    f.Require(s.cwnd >= cc::DelayWindow::kFloor, "cwnd", s.cwnd,
              "is less than the floor");
    f.Require(s.full_packet != 0, "full_packet", s.full_packet,
              "must not be 0");
  }
};

template <>
struct FieldsOf<cc::HyStart> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, conservative, samples, rounds, shortest,
                  shortest_before, baseline);
    f("conservative", conservative);
    f("samples", samples);
    f("rounds", rounds);
    f("shortest", shortest);
    f("shortest_before", shortest_before);
    f("baseline", baseline);
    f.Require(samples <= cc::HyStart::kSamples, "samples", samples,
              "is more than are counted");
    f.Require(rounds < cc::HyStart::kConservativeRounds, "rounds", rounds,
              "is too large");
  }
};

template <>
struct FieldsOf<cc::WindowValidation> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, round_bytes, highest, highest_before, half_since, known,
                  validated, validated_at);
    f("round_bytes", round_bytes);
    f("highest", highest);
    f("highest_before", highest_before);
    f.Since("half_since", half_since, true);
    f("known", known);
    f("validated", validated);
    f.Since("validated_at", validated_at, true);
  }
};

template <>
struct FieldsOf<cc::Cubic> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, w_max, w_est, prior, k, epoch, seen, running, flat);
    f("w_max", w_max);
    f("w_est", w_est);
    f("prior", prior);
    f("k", k);
    f("running", running);
    f("flat", flat);
    f.Since("epoch", epoch, running);
    f.Since("seen", seen, running);
    constexpr cc::FixedPackets kMax = cc::FromPackets(cc::kWindowMax);
    f.Require(w_max <= kMax, "w_max", w_max, "is too large");
    f.Require(w_est <= kMax, "w_est", w_est, "is too large");
    f.Require(prior <= kMax, "prior", prior, "is too large");
  }
};

template <>
struct FieldsOf<cc::Dctcp> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, alpha, acked, marked);
    f("alpha", alpha);
    f("acked", acked);
    f("marked", marked);
    f.Require(alpha <= cc::Dctcp::kAll, "alpha", alpha, "is more than 1");
    f.Require(acked < uint64_t{1} << 43, "acked", acked, "is too large");
    f.Require(marked <= acked, "marked", marked, "is more than acked");
  }
};

template <>
struct FieldsOf<cc::TcpUndo> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, valid, window, ssthresh, cubic);
    f("valid", valid);
    f("window", window);
    f("ssthresh", ssthresh);
    f.Group("undo_cubic", cubic);
  }
};

template <>
struct FieldsOf<cc::TcpCongestion> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, pacer, round_trip, smoothed, algorithm, repair, mss,
                  cwnd, threshold, limit, unconfirmed, was_cut, cut_for_mark,
                  last_cut, hystart, validation, cubic, dctcp, undo);
    f("algorithm", algorithm, cc::TcpAlgorithm::kDctcp, cc::kTcpAlgorithmNames);
    f("repair", repair, cc::TcpRepair::kTimeout, cc::kTcpRepairNames);
    f("mss", mss);
    f("limit", limit);
    f("cwnd", cwnd);
    f("threshold", threshold);
    f("unconfirmed", unconfirmed);
    f("round_trip", round_trip);
    f("smoothed", smoothed);
    f("was_cut", was_cut);
    f("cut_for_mark", cut_for_mark);
    f.Since("last_cut", last_cut, was_cut);
    f.Require(mss != 0 && mss <= UINT16_MAX, "mss", mss, "is not a size");
    f.Require(
        limit >= cc::kOnePacket && limit <= cc::FromPackets(cc::kWindowMax),
        "limit", limit, "is not a window");
    CheckWindow(f, "cwnd", cwnd, limit);
    CheckThreshold(f, "threshold", threshold, limit);
    f.Require(unconfirmed <= limit, "unconfirmed", unconfirmed,
              "is more than the limit");
    f.Require(round_trip <= cc::TcpCongestion::kRoundTripMax, "round_trip",
              static_cast<uint64_t>(round_trip.ns()), "is too long");
    f.Require(smoothed <= cc::TcpCongestion::kRoundTripMax, "smoothed",
              static_cast<uint64_t>(smoothed.ns()), "is too long");
    f.Group("pacer", pacer);
    // A packet leaves within a round trip.
    constexpr auto kLongest =
        static_cast<uint64_t>(cc::TcpCongestion::kRoundTripMax.ns())
        << cc::Pacer::kFraction;
    f.Require(!f.ok() || pacer.cost <= kLongest / mss, "cost", pacer.cost,
              "is too large");
    f.Group("hystart", hystart);
    f.Group("validation", validation);
    f.Group("cubic", cubic);
    f.Group("dctcp", dctcp);
    f.Group("undo", undo);
    if (undo.valid) {
      CheckWindow(f, "window", undo.window, limit);
      CheckThreshold(f, "ssthresh", undo.ssthresh, limit);
    }
  }

 private:
  template <typename F>
  static void CheckWindow(F& f, const char* name, cc::FixedPackets window,
                          cc::FixedPackets limit) {
    f.Require(window >= cc::kOnePacket && window <= limit, name, window,
              "is less than a packet, or more than the limit");
  }
  template <typename F>
  static void CheckThreshold(F& f, const char* name, cc::FixedPackets threshold,
                             cc::FixedPackets limit) {
    if (threshold == cc::TcpCongestion::kUnknown) return;
    CheckWindow(f, name, threshold, limit);
  }
};

template <>
struct FieldsOf<cc::RoundTripEstimate> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, smoothed_ns, variation_ns);
    const auto check = [&](const char* name, uint32_t ns) {
      f.Require(ns <= cc::RoundTripEstimate::kMax.ns(), name, ns,
                "is more than a round trip can be");
    };
    f("smoothed_ns", smoothed_ns);
    f("variation_ns", variation_ns);
    check("smoothed_ns", smoothed_ns);
    check("variation_ns", variation_ns);
  }
};

template <typename Seq>
struct FieldsOf<cc::FlowRounds<Seq>> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, end, filled, filled_before);
    f("end", end);
    f("filled", filled);
    f("filled_before", filled_before);
  }
};

template <typename Seq>
struct FieldsOf<cc::RoundTripTimer<Seq>> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, timed, count, resent_end);
    f("resent_end", resent_end);
    // Round trips that are being measured must not include the move.
    f.Elsewhere(timed, count);
  }
};

template <>
struct FieldsOf<cc::SharedPath> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, cc, round_trip, round_trips, reordering_ns, most_held,
                  under_way, port, in_port, users, waiting, estimated_at,
                  answered_at);
    f.Group("cc", cc);
    f.Group("round_trip", round_trip);
    f("reordering_ns", reordering_ns);
    f.Since("answered_at", answered_at, answered_at.ns() != 0);
    // The parts of the flows, and counts of this place.
    f.Elsewhere(round_trips, most_held, under_way, port, in_port, users,
                waiting, estimated_at);
  }
};

template <>
struct FieldsOf<cc::NotificationPoint> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, quiet_until, due);
    f("due", due);
    f.Deadline("quiet_until", quiet_until);
    f.Require(!quiet_until.IsInfinite(), "quiet_until", UINT64_MAX, "is never");
  }
};

}  // namespace urnic
