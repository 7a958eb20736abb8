#pragma once

// Congestion control of a TCP connection: CUBIC or DCTCP, chosen when the
// connection starts. Both share slow start with HyStart++, the initial window,
// validation of unused windows, the reaction to time-outs, undo and pacing. So
// this is one struct with a few branches, and not a variant of two: it saves
// little to overlay the 24 bytes of DCTCP and the 56 of CUBIC.
//
//              CUBIC                            DCTCP
//   growth     cubic, at least as Reno          a packet in a round trip (Reno)
//   loss       7/10 of the window stay          half stays
//   mark       the same, once per round trip    1 - alpha/2 stays, likewise
//
// Classic ECN counts as a loss. An experimental standard (ABE) would let CUBIC
// keep 85 %. But the kernel's CUBIC keeps 70 %, and we would take its share of
// a bottleneck that marks. DCTCP loses like Reno, and grows like it, because
// that is what it competes with in its networks.
//
// The window counts packets of `mss` bytes: a packet with 8 bytes counts as its
// share of one. The transport compares window() * mss with its bytes.

#include <algorithm>
#include <cstdint>

#include "transport/base/check.h"
#include "transport/base/time.h"
#include "transport/cc/congestion_control.h"
#include "transport/cc/cubic.h"
#include "transport/cc/dctcp.h"
#include "transport/cc/fixed_packets.h"
#include "transport/cc/hystart.h"
#include "transport/cc/pacer.h"
#include "transport/cc/window_validation.h"

namespace urnic::cc {

//= RFC 6928 2: the initial window is ten packets, but at most the greater of
//= 14600 bytes and two packets
constexpr uint32_t InitialWindow(uint32_t mss) {
  return std::min(10u, std::max(2u, 14600 / mss));
}

enum class TcpAlgorithm : uint8_t { kCubic, kDctcp };
inline constexpr const char* kTcpAlgorithmNames[] = {"cubic", "dctcp"};

enum class TcpRepair : uint8_t { kNone, kLoss, kTimeout };
inline constexpr const char* kTcpRepairNames[] = {"none", "loss", "timeout"};

struct TcpCongestionConfig {
  TcpAlgorithm algorithm = TcpAlgorithm::kCubic;
  uint32_t mss = 536;                // payload of a full packet; not 0
  uint32_t window_max = kWindowMax;  // packets; not 0
  bool handshake_resent = false;     // a SYN or its answer was lost
};

// What OnUndo() restores.
struct TcpUndo {
  bool valid = false;
  FixedPackets window = 0;
  FixedPackets ssthresh = 0;
  Cubic cubic;
};

struct TcpCongestion {
  static constexpr FixedPackets kUnknown = UINT64_MAX;  // of ssthresh
  // Below this round trip there is no pacing. Timers are up to 16 us late and
  // a burst makes up for 20 us (Pacer), so the window of such a round trip
  // would leave in three bursts at best, and each would cost a timer.
  static constexpr Duration kPacedRoundTripMin = Duration::Microseconds(50);
  // Longer measurements, of a suspended peer, count as this.
  static constexpr Duration kRoundTripMax = Duration::Seconds(60);

  void Start(const TcpCongestionConfig& config, Time now) {
    URNIC_CHECK(config.mss != 0 && config.window_max != 0);
    *this = TcpCongestion();
    algorithm = config.algorithm;
    mss = config.mss;
    limit = FromPackets(std::min(config.window_max, kWindowMax));
    //= RFC 6928 2: the initial window is one packet if a SYN or SYN-ACK was
    //= lost
    const uint32_t first = config.handshake_resent ? 1 : InitialWindow(mss);
    cwnd = std::min(FromPackets(first), limit);
    validation.Start(now);
  }

  uint32_t window() const { return static_cast<uint32_t>(cwnd >> 32); }
  uint32_t ssthresh() const {
    return threshold == kUnknown ? UINT32_MAX
                                 : static_cast<uint32_t>(threshold >> 32);
  }
  bool in_slow_start() const { return cwnd < threshold; }

  void OnAck(const AckSample& sample) {
    Measure(sample.round_trip);
    cubic.Advance(sample.now, sample.app_limited);
    if (algorithm == TcpAlgorithm::kDctcp) {
      dctcp.OnAck(sample.bytes, sample.marked_bytes, sample.ends_round);
    }
    if (repair == TcpRepair::kNone) {
      validation.OnAck(sample.bytes, sample.ends_round, ToBytes(cwnd, mss), mss,
                       sample.now, smoothed);
      ShrinkIfExpired(sample.now);
    }
    if (__builtin_expect(sample.marked, 0)) {
      // If the program did not fill the window, only the used part counts.
      OnMarked(sample.now, sample.app_limited ? 0 : UINT32_MAX);
    } else if (MayGrow(sample)) {
      Grow(sample);
    }
    if (threshold == kUnknown &&
        hystart.OnAck(sample.round_trip, sample.ends_round)) {
      threshold = cubic.prior = cwnd;
      cubic.StartFlat();
    }
    // The window changes little within a round, except in slow start.
    if (sample.ends_round || in_slow_start()) Pace();
  }

  void OnLoss(Time now, uint32_t in_flight = UINT32_MAX) {
    const bool reduced = repair == TcpRepair::kNone && cut_for_mark &&
                         algorithm == TcpAlgorithm::kCubic &&
                         WithinRoundTripOfCut(now);
    unconfirmed = 0;
    //= RFC 3168 6.1.2: a loss in a window that was already reduced for a mark
    //= does not reduce it again (except for DCTCP, whose reduction was smaller)
    if (reduced) {
      repair = TcpRepair::kLoss;
      return;
    }
    Save();
    const FixedPackets used = Used(in_flight);
    if (!validation.validated) unconfirmed = used;
    Reduce(used, validation.validated ? AfterLoss(used) : used / 2);
    cwnd = threshold;
    repair = TcpRepair::kLoss;
    cut_for_mark = false;
    last_cut = now;
    was_cut = true;
    Pace();
  }

  void OnRto(Time now, uint32_t in_flight = UINT32_MAX) {
    //= RFC 5681 3.1: the first time-out of a segment sets ssthresh; time-outs
    //= of its retransmissions do not
    if (repair != TcpRepair::kTimeout) Save();
    if (repair == TcpRepair::kNone) {
      //= RFC 9438 4.8: a time-out sets ssthresh with the factor beta_cubic
      const FixedPackets used = Used(in_flight);
      Reduce(used, AfterLoss(used));
    }
    //= RFC 5681 3.1: after a time-out, the window is one packet, and slow start
    //= follows
    cwnd = kOnePacket;
    cubic.StartFlat();
    repair = TcpRepair::kTimeout;
    unconfirmed = 0;
    cut_for_mark = false;
    last_cut = now;
    was_cut = true;
    Pace();
  }

  void OnUndo() {
    if (!undo.valid) return;
    undo.valid = false;
    repair = TcpRepair::kNone;
    unconfirmed = 0;
    //= RFC 9438 4.9.2: when a spurious congestion event is undone, a window
    //= that is already larger than the old one stays as it is
    if (cwnd >= undo.window) return;
    //= RFC 9438 4.9.1, 4.9.2: when a spurious congestion event is undone, the
    //= state of before the reduction is restored
    cwnd = undo.window;
    threshold = undo.ssthresh;
    cubic = undo.cubic;
    Pace();
  }

  void OnCnp(Time now) { OnMarked(now, UINT32_MAX); }

  void SetWindow(uint32_t packets) {
    cwnd = std::clamp(FromPackets(std::min(packets, kWindowMax)), kOnePacket,
                      limit);
    Pace();
  }

  // `resent`: packets, in this repair.
  void OnRecovered(Time now, uint32_t resent) {
    if (repair == TcpRepair::kNone) return;
    if (repair == TcpRepair::kLoss) {
      //= RFC 6937 3: a repair ends with a window of ssthresh
      cwnd = std::max(threshold, kOnePacket);
      //= RFC 7661 4.4.1: if the window was not confirmed, the packets that were
      //= resent are subtracted from the flight before it is halved
      if (unconfirmed != 0) {
        const FixedPackets lost = FromPackets(std::min(resent, kWindowMax));
        const FixedPackets carried = unconfirmed - std::min(unconfirmed, lost);
        cwnd = std::min(cwnd, std::max(carried / 2, kLossFloor));
      }
    }
    repair = TcpRepair::kNone;
    unconfirmed = 0;
    validation.OnRecovered(now);
    Pace();
  }

  void OnRestart(Time now) {
    cubic.Advance(now, /*limited=*/true);
    validation.OnRestart(ToBytes(cwnd, mss), mss, now, smoothed);
    ShrinkIfExpired(now);
    Pace();
  }

  // REQUIRES: bytes != 0
  void SetMss(uint32_t bytes) {
    // Larger packets must not make the window larger in bytes.
    if (bytes > mss) {
      const uint64_t share = Share(mss, bytes);
      cwnd = std::max(Times(cwnd, share), kOnePacket);
      if (threshold != kUnknown) {
        threshold = std::max(Times(threshold, share), kOnePacket);
      }
      cubic.w_max = Times(cubic.w_max, share);
      cubic.prior = Times(cubic.prior, share);
    }
    mss = bytes;
    cubic.running = false;
    undo.valid = false;
    Pace();
  }

  // The rate of the pacer follows from the window and the round trip.
  void Pace() {
    if (smoothed < kPacedRoundTripMin) return pacer.SetRate(0);
    const uint64_t bytes = ToBytes(cwnd, mss);
    // Faster than the window alone, so that the window stays the limit. Slow
    // start doubles the window in a round trip, so it needs twice the rate.
    pacer.SetRate(
        std::max<uint64_t>(in_slow_start() ? bytes * 2 : bytes * 6 / 5, 1),
        smoothed);
  }

  Pacer pacer;
  Duration round_trip;  // the latest; zero: not known yet
  Duration smoothed;    // their average
  TcpAlgorithm algorithm = TcpAlgorithm::kCubic;
  TcpRepair repair = TcpRepair::kNone;
  uint32_t mss = 536;
  FixedPackets cwnd = kOnePacket;     // window() in full
  FixedPackets threshold = kUnknown;  // ssthresh() in full
  FixedPackets limit = kOnePacket;
  // After a loss with an unconfirmed window: the part that was used. Else 0.
  FixedPackets unconfirmed = 0;
  bool was_cut = false;       // last_cut is known
  bool cut_for_mark = false;  // the last cut was for a mark
  Time last_cut;
  HyStart hystart;
  WindowValidation validation;
  Cubic cubic;
  Dctcp dctcp;
  TcpUndo undo;

 private:
  //= RFC 9438 4.6, RFC 5681 3.1: ssthresh is at least two segments
  static constexpr FixedPackets kLossFloor = 2 * kOnePacket;

  void Measure(Duration sample) {
    if (sample.ns() <= 0) return;
    round_trip = std::min(sample, kRoundTripMax);
    smoothed =
        smoothed.ns() == 0
            ? round_trip
            : Duration::Nanoseconds((smoothed.ns() * 7 + round_trip.ns()) / 8);
  }

  bool MayGrow(const AckSample& sample) const {
    if (repair == TcpRepair::kLoss) return false;
    //= RFC 5681 3.2: duplicate acknowledgements leave the window as it is, also
    //= if they allow new segments
    if (sample.duplicate) return false;
    // After a time-out there is more to resend than the window allows.
    if (repair == TcpRepair::kTimeout) return true;
    //= RFC 7661 4.4, RFC 9438 5.8: the window does not grow while the sender
    //= does not use all of it
    return !sample.app_limited;
  }

  void Grow(const AckSample& sample) {
    if (in_slow_start()) {
      FixedPackets acked = std::min(FromBytes(sample.bytes, mss), limit);
      //= RFC 9406 4.2: a sender without pacing counts at most eight packets for
      //= one acknowledgement
      if (!pacer.active()) {
        acked = std::min(acked, FromPackets(HyStart::kBurst));
      }
      //= RFC 9406 4.2, 4.3: HyStart++ applies to the first slow start; in its
      //= conservative rounds the window grows a quarter as fast
      if (threshold == kUnknown) acked /= hystart.divisor();
      cwnd = std::min(cwnd + acked, threshold);
    } else if (sample.bytes != 0) {
      const uint64_t share = Share(sample.bytes, ToBytes(cwnd, mss));
      //= RFC 8257 3.4: DCTCP does not change how the window grows
      cwnd = algorithm == TcpAlgorithm::kCubic
                 ? cubic.Grow(cwnd, share, sample.now, smoothed)
                 : cwnd + share;
    }
    cwnd = std::min(cwnd, limit);
  }

  FixedPackets AfterLoss(FixedPackets used) const {
    //= RFC 8257 3.5: DCTCP does not change the reaction to a loss
    return algorithm == TcpAlgorithm::kCubic ? Cubic::AfterLoss(used)
                                             : used / 2;
  }

  // The window from which a reduction starts.
  FixedPackets Used(uint32_t in_flight) const {
    //= RFC 9438 4.6: a reduction may use the window in place of the flight size
    //= if the window only grows while it is full
    const FixedPackets whole = WholeWindow();
    if (validation.validated) return whole;
    //= RFC 7661 4.4.1: the reduction of an unconfirmed window starts from what
    //= was in use
    const FixedPackets used =
        std::max(FromPackets(std::min(in_flight, kWindowMax)),
                 FromBytes(validation.pipe_ack(), mss));
    return std::clamp(used, kOnePacket, whole);
  }
  // During a repair, the transport has set another window.
  FixedPackets WholeWindow() const {
    return repair == TcpRepair::kLoss ? std::max(cwnd, threshold) : cwnd;
  }

  void Reduce(FixedPackets used, FixedPackets kept) {
    cubic.OnReduction(WholeWindow(), used);
    threshold = std::min(std::max(kept, kLossFloor), limit);
  }

  void OnMarked(Time now, uint32_t in_flight) {
    //= RFC 3168 6.1.2: marks reduce the window once per round trip, and not
    //= while a loss is repaired
    if (repair != TcpRepair::kNone || WithinRoundTripOfCut(now)) return;
    const FixedPackets used = Used(in_flight);
    if (algorithm == TcpAlgorithm::kDctcp) {
      Reduce(used, dctcp.AfterMarks(used));
      cwnd = std::min(cwnd, threshold);
    } else {
      const FixedPackets kept = Cubic::AfterLoss(used);
      Reduce(used, kept);
      //= RFC 9438 4.6: ECN marks may reduce the window to one segment
      cwnd = std::max(std::min(cwnd, kept), kOnePacket);
    }
    cut_for_mark = true;
    last_cut = now;
    was_cut = true;
    undo.valid = false;  // marks are never undone
    Pace();
  }
  // Packets that are acknowledged or missing now were sent before the last cut.
  bool WithinRoundTripOfCut(Time now) const {
    return was_cut && now - last_cut < round_trip;
  }

  void ShrinkIfExpired(Time now) {
    const FixedPackets initial = FromPackets(InitialWindow(mss));
    //= RFC 7661 4.4.3: a window that was not confirmed for five minutes is
    //= halved (not below the initial one), and ssthresh is at least 3/4 of it
    while (validation.TakeExpired(now)) {
      if (cwnd <= initial) {
        validation.validated_at = now;
        return;
      }
      threshold = std::max(threshold, cwnd / 4 * 3);
      cwnd = std::max(cwnd / 2, initial);
      cubic.running = false;
    }
  }

  void Save() {
    undo.valid = true;
    undo.window = WholeWindow();
    undo.ssthresh = threshold;
    undo.cubic = cubic;
  }
};
static_assert(StreamCongestionControl<TcpCongestion>);

}  // namespace urnic::cc
