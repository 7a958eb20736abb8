#pragma once

// Congestion control of a flow by its round trips, in the manner of Swift. The
// shortest round trip is that of an empty path; what exceeds it is queues. The
// flow leaves a small queue (kQueue) and slows down when it becomes longer.
//
//   short round trip   twice the window in a round trip at first, later a
//                      sixteenth more; one packet more as the queue builds
//   long, in a row     less, by up to a half
//   a loss             nothing, if round trips are short and little was lost
//   a time-out, a rewind, much lost; a mark, a CNP     half
//   long, and slowing down does not help               as if the queue belonged
//                      to others: one packet more, and half at a loss
//
// Round trips are long as well when the peer's CPU was busy, so fewer
// than kLongInARow long samples mean nothing but the end of doubling. A round
// trip of an empty path below kShort needs only `quiet` packets; the limit
// grows with it, up to `most`. A flow that has not seen an empty path for
// kRemember lets the queue drain and measures again (as BBR does): routes
// change, and a flow that begins behind the queues of others would take them
// for the path.

#include <algorithm>
#include <cstdint>

#include "transport/cc/congestion_control.h"

namespace urnic::cc {

struct DelayWindow {
  // A responder may delay the acknowledgement of a single packet.
  static constexpr uint32_t kFloor = 2;
  static constexpr uint32_t kInitial = 16;
  static constexpr uint32_t kDrained = 4;
  static constexpr uint32_t kGrowthSteps = 16;
  static constexpr uint32_t kFewLost = 8;  // up to an eighth of a window
  static constexpr uint8_t kLongInARow = 3;
  static constexpr Duration kQueue = Duration::Microseconds(100);
  static constexpr Duration kShort = Duration::Microseconds(50);
  static constexpr Duration kRemember = Duration::Seconds(10);

  // Restarts the flow. `bits_per_second`: the highest rate that the flow may
  // ever use; 0: no limit. REQUIRES: 1 <= quiet_packets <= most_packets
  void Start(uint32_t quiet_packets, uint32_t most_packets,
             uint64_t bits_per_second) {
    *this = DelayWindow();
    pacer.SetRate(bits_per_second);
    quiet = limit = quiet_packets;
    most = most_packets;
    packets = before_cut = std::min(quiet, kInitial);
  }

  uint32_t window() const { return packets; }
  // The round trip of an empty path; zero: not known yet.
  Duration Shortest() const { return Duration::Nanoseconds(shortest_ns); }

  void OnAck(const AckSample& sample) {
    if (sample.round_trip.ns() != 0) OnRoundTrip(sample.now, sample.round_trip);
    acked += sample.packets;
    if ((acked >= packets || starting) && drain == 0) Grow(sample);
    if (__builtin_expect(sample.marked, 0)) OnCnp(sample.now);
  }

  // A round trip that is not part of an acknowledgement: of a packet that was
  // sent again.
  void OnRoundTrip(Time now, Duration sample) {
    round_trip = sample;
    LearnShortest(now, sample);
    if (drain != 0) return;
    if (sample <= Target()) {
      above = 0;
      if (++below >= 2) competes = false;
      slowed_from = 0;
      return;
    }
    below = 0;
    if (above < kLongInARow && ++above < kLongInARow) return;
    if (competes || (cut && now - last_cut < sample)) return;
    NoteSlowing(Narrow(sample));
    const int64_t excess = (sample - Target()).ns();
    const auto less = static_cast<uint32_t>(
        std::min<int64_t>(packets / 2, packets * excess * 4 / 5 / sample.ns()));
    CutTo(packets - std::max(less, 1u), now);
  }

  // So many packets were lost; without a number, as many as were under way,
  // because all of them are sent again.
  void OnLoss(Time now, uint32_t lost = UINT32_MAX) {
    const bool few = lost <= packets / kFewLost || lost == 1;
    if (few && !competes && above < kLongInARow) return;
    CutTo(packets / 2, now);
  }
  void OnRto(Time now) { CutTo(packets / 2, now); }

  void OnUndo() { packets = std::max(packets, before_cut); }

  void OnCnp(Time now) {
    if (cut && now - last_cut < round_trip) return;
    CutTo(packets / 2, now);
    before_cut = packets;  // this cut is never undone
  }

  Pacer pacer;
  uint32_t packets = 0;
  uint32_t quiet = 0;  // enough for a short path
  uint32_t limit = 0;  // enough for this path
  uint32_t most = 0;
  uint32_t acked = 0;       // toward the next growth step
  uint32_t before_cut = 0;  // OnUndo() restores this
  bool starting = true;     // twice the window in a round trip
  bool cut = false;         // last_cut is known
  uint8_t above = 0;        // long round trips in a row, up to kLongInARow
  uint8_t below = 0;        // short ones
  bool competes = false;    // the queue belongs to others
  Time last_cut;
  Duration round_trip;  // the latest; zero: not known yet
  // Since we began to slow down: the window and the round trip of then. 0: we
  // do not.
  uint32_t slowed_from = 0;
  uint32_t slowed_ns = 0;
  uint32_t shortest_ns = 0;   // of an empty path; 0: not known
  Time shortest_at;           // when it was last seen
  uint32_t before_drain = 0;  // the window
  uint8_t drain = 0;          // samples until the drained path is measured

 private:
  // A quarter of the window does not make the queue a quarter shorter: it
  // belongs to others.
  void NoteSlowing(uint32_t ns) {
    if (slowed_from == 0 || ns < slowed_ns / 4 * 3) {
      slowed_from = packets;
      slowed_ns = ns;
    } else if (packets <= std::max(slowed_from / 4, kFloor)) {
      competes = true;
    }
  }

  static uint32_t Narrow(Duration round_trip) {
    return static_cast<uint32_t>(
        std::clamp<int64_t>(round_trip.ns(), 1, UINT32_MAX));
  }
  Duration Target() const {
    const Duration base = Shortest();
    return base + std::max(kQueue, Duration::Nanoseconds(base.ns() / 8));
  }

  void LearnShortest(Time now, Duration sample) {
    const uint32_t ns = Narrow(sample);
    if (drain != 0 && --drain == 0) {
      shortest_ns = 0;  // this sample is of the drained path
      packets = std::min(before_drain, most);
    }
    if (shortest_ns == 0 || ns <= shortest_ns + shortest_ns / 8) {
      shortest_ns = shortest_ns == 0 ? ns : std::min(shortest_ns, ns);
      shortest_at = now;
      SetLimit();
    } else if (drain == 0 && now - shortest_at >= kRemember) {
      // The first sample is of a packet that was sent before.
      drain = 2;
      before_drain = packets;
      packets = std::min(packets, kDrained);
    }
  }
  void SetLimit() {
    const uint32_t ns = shortest_ns;
    limit = ns <= kShort.ns()
                ? quiet
                : static_cast<uint32_t>(std::clamp<uint64_t>(
                      uint64_t{quiet} * ns / static_cast<uint64_t>(kShort.ns()),
                      quiet, most));
    packets = std::min(packets, limit);
  }

  void Grow(const AckSample& sample) {
    if (acked >= packets) acked = 0;
    if (packets >= limit) {
      packets = limit;
      return;
    }
    // An unused window says nothing about the path. Up to `quiet`, it may grow
    // nevertheless: programs that ask for the answer of each message would
    // otherwise begin their bulk transfers slowly.
    if (sample.app_limited && packets >= quiet) return;
    uint32_t more = 1;
    if (starting && above == 0) {
      more = sample.packets;
    } else if (acked != 0) {
      return;  // not a whole window yet
    } else if (!competes && (round_trip <= Halfway() || packets < quiet / 4)) {
      more = std::max({1u, quiet / kGrowthSteps, packets / kGrowthSteps});
    }
    packets = std::min(limit, packets + more);
  }
  Duration Halfway() const {
    return Shortest() + Duration::Nanoseconds((Target() - Shortest()).ns() / 2);
  }

  void CutTo(uint32_t less, Time now) {
    before_cut = packets;
    packets = std::max(std::min(kFloor, limit), less);
    acked = 0;
    starting = false;
    cut = true;
    last_cut = now;
  }
};
static_assert(CongestionControl<DelayWindow>);

}  // namespace urnic::cc
