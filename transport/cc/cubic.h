#pragma once

// CUBIC's growth in congestion avoidance. After a reduction the window returns
// to its old size, W_max, along a cubic function of time: fast, then flat near
// W_max, then fast again. So the growth does not depend on the round trip.
// Where a Reno flow would be faster, the window follows an estimate of Reno.
//
// This is the curve only. Slow start, the sizes of reductions and the window
// itself are in tcp_congestion.h.

#include <algorithm>
#include <cstdint>

#include "transport/base/time.h"
#include "transport/cc/fixed_packets.h"

namespace urnic::cc {

struct Cubic {
  //= RFC 9438 4.6: a congestion event multiplies the window by beta_cubic = 0.7
  static constexpr FixedPackets AfterLoss(FixedPackets window) {
    return window * 7 / 10;
  }

  // The window is about to be reduced from `window`. `used`: the part of it
  // that was in use.
  void OnReduction(FixedPackets window, FixedPackets used) {
    //= RFC 9438 4.7: fast convergence: if the window has not reached W_max
    //= again, W_max is lowered further, so that the flow releases bandwidth for
    //= new flows
    w_max = used < w_max ? used * 17 / 20 : used;
    prior = window;
    running = false;
    flat = false;
  }
  //= RFC 9438 4.8, 4.10: after a time-out, or a slow start that ended without a
  //= loss, the cubic function begins at its plateau: K is 0, and W_max is the
  //= current window
  void StartFlat() {
    running = false;
    flat = true;
  }

  // A `share` of the window (in units of 2^-32, up to 1) has been acknowledged
  // in congestion avoidance, and the window was full. Returns the new window.
  FixedPackets Grow(FixedPackets window, uint64_t share, Time now,
                    Duration round_trip) {
    if (!running) Begin(window, now);
    //= RFC 9438 4.3: the Reno-friendly estimate W_est grows by alpha_cubic =
    //= 3*(1-0.7)/(1+0.7) = 9/17 packets in a round trip, and by one packet as
    //= soon as it has reached the window before the reduction
    w_est += w_est >= prior ? share : share * 9 / 17;
    w_est = std::min(w_est, FromPackets(kWindowMax));
    const Duration t = now - epoch;
    //= RFC 9438 4.3: where the cubic function is below W_est, the window is
    //= W_est (the Reno-friendly region)
    if (At(t) < w_est) return std::max(window, w_est);
    //= RFC 9438 4.4, 4.5: in the concave and the convex region, the window
    //= grows within a round trip to the target, the value of the cubic function
    //= one round trip later
    //= RFC 9438 4.2: the target is at most 1.5 times the window
    const FixedPackets target =
        std::clamp(At(t + round_trip), window, window + window / 2);
    return window + Times(target - window, share);
  }

  // An acknowledgement, or the end of an idle time. Time does not count while
  // the flow did not use its window (`limited`).
  void Advance(Time now, bool limited) {
    //= RFC 9438 5.8: the time t of the cubic function does not include periods
    //= in which the flow was limited by its application or by the receiver's
    //= window
    if (limited) epoch = epoch + (now - seen);
    seen = now;
  }

  // W_cubic(t) = C*(t-K)^3 + W_max, with C = 0.4 packets/s^3
  FixedPackets At(Duration t) const {
    // Beyond this the curve is above every window.
    constexpr int64_t kFarNs = 512'000'000'000;
    const int64_t ns = (t - k).ns();
    const int64_t far = std::min(ns < 0 ? -ns : ns, kFarNs);
    const uint64_t u = (static_cast<uint64_t>(far) << 20) / 1'000'000'000;
    const auto cube = static_cast<unsigned __int128>(u) * u * u;
    // 0.4 * (u / 2^20)^3 * 2^32
    const auto distance = static_cast<uint64_t>(cube >> 28) * 2 / 5;
    if (ns >= 0) return w_max + distance;
    return w_max - std::min(w_max, distance);
  }

  FixedPackets w_max = 0;  // 0: no reduction yet
  FixedPackets w_est = 0;
  FixedPackets prior = 0;  // the window when ssthresh was set
  Duration k;              // when the curve is at W_max
  Time epoch;              // when t was 0, moved by times that do not count
  Time seen;               // the last Advance()
  bool running = false;    // w_est, k and epoch are set
  bool flat = false;       // K will be 0

 private:
  void Begin(FixedPackets window, Time now) {
    running = true;
    epoch = seen = now;
    w_est = window;
    k = Duration();
    if (flat || w_max <= window) {
      w_max = window;
    } else {
      //= RFC 9438 4.2: the window returns to W_max after K = cbrt((W_max -
      //= cwnd_epoch) / C) seconds
      // In seconds * 2^20: the cube root of (difference / 2^32) * 5/2 * 2^60.
      const auto cube = static_cast<unsigned __int128>(w_max - window) * 5;
      const uint64_t root = CubeRoot(cube << 27);
      k = Duration::Nanoseconds(
          static_cast<int64_t>(root * 1'000'000'000 >> 20));
    }
    flat = false;
  }
};

}  // namespace urnic::cc
