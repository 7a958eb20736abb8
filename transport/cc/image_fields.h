#pragma once

// The lists of members of congestion control (transport/work/image_codec.h).

#include "transport/cc/flow_sampler.h"
#include "transport/cc/halving_window.h"
#include "transport/cc/notification_point.h"
#include "transport/work/image_codec.h"

namespace urnic {

template <>
struct FieldsOf<cc::Pacer> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, cost, next_send);
    f.Elsewhere(cost);  // follows from the configured rate
    f.Deadline("next_send", next_send);
    f.Require(!next_send.IsInfinite(), "next_send", UINT64_MAX, "is never");
  }
};

template <>
struct FieldsOf<cc::HalvingWindow> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, pacer, packets, packets_max, acked, before_cut, cut,
                  last_cut, round_trip);
    f("packets", packets);
    f("packets_max", packets_max);
    f("acked", acked);
    f("before_cut", before_cut);
    f("cut", cut);
    f.Since("last_cut", last_cut, cut);
    f("round_trip", round_trip);
    f.Require(packets <= packets_max, "packets", packets,
              "is more than packets_max");
    f.Require(before_cut <= packets_max, "before_cut", before_cut,
              "is more than packets_max");
    f.Group("pacer", pacer);
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
