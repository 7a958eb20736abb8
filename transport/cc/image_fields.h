#pragma once

// The lists of members of congestion control (transport/work/image_codec.h).

#include "transport/cc/delay_window.h"
#include "transport/cc/flow_sampler.h"
#include "transport/cc/notification_point.h"
#include "transport/cc/round_trip_estimate.h"
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
struct FieldsOf<cc::DelayWindow> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, pacer, packets, quiet, limit, most, acked, before_cut,
                  starting, cut, above, below, competes, last_cut, round_trip,
                  slowed_from, slowed_ns, shortest_ns, shortest_at,
                  before_drain, drain);
    f("packets", packets);
    f("quiet", quiet);
    f("limit", limit);
    f("most", most);
    f("acked", acked);
    f("before_cut", before_cut);
    f("starting", starting);
    f("cut", cut);
    f("above", above);
    f("below", below);
    f("competes", competes);
    f.Since("last_cut", last_cut, cut);
    f("round_trip", round_trip);
    f("slowed_from", slowed_from);
    f("slowed_ns", slowed_ns);
    f("shortest_ns", shortest_ns);
    f.Since("shortest_at", shortest_at, shortest_ns != 0);
    f("before_drain", before_drain);
    f("drain", drain);
    f.Require(most <= cc::kWindowMax, "most", most, "is too large");
    f.Require(quiet <= limit && limit <= most, "limit", limit,
              "is not between quiet and most");
    f.Require(packets <= most, "packets", packets, "is more than most");
    f.Require(before_cut <= most, "before_cut", before_cut,
              "is more than most");
    f.Group("pacer", pacer);
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
struct FieldsOf<cc::FlowSampler<Seq>> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, timed_end, round_end, resent_end, timing, timed_alone,
                  filled, filled_before, timed_since, shortest);
    f("timed_end", timed_end);
    f("round_end", round_end);
    f("resent_end", resent_end);
    f("timing", timing);
    f("timed_alone", timed_alone);
    f("filled", filled);
    f("filled_before", filled_before);
    f.Since("timed_since", timed_since, timing);
    f("shortest", shortest);
  }
};

template <>
struct FieldsOf<cc::NotificationPoint> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, due, quiet_until);
    f("due", due);
    f.Deadline("quiet_until", quiet_until);
    f.Require(!quiet_until.IsInfinite(), "quiet_until", UINT64_MAX, "is never");
  }
};

}  // namespace urnic
