#pragma once

// Congestion control of a path by its round trips, in the manner of Swift. The
// shortest round trip is that of an empty path; the excess over it is the time
// in queues. The flow tolerates a small queue, and slows down when it becomes
// longer.
//
//   short round trip   twice the window in a round trip at first, later a
//                      sixteenth more; one packet more as the queue builds
//   long, in a row     less, by up to a half
//   a loss             nothing, if round trips are short and little was lost
//   a time-out, much lost (also by a rewind)           half
//   long, and slowing down does not help               as if the queue belonged
//                      to others: one packet more, and half at a loss
//   marks, CNPs        less, in proportion to how many round trips have marks;
//                      then soon back to the middle (DCQCN)
//
// The window may fall below one packet. Then it counts as one, and a pacer
// spaces the packets. A flow with a smaller window tolerates a longer queue. So
// among many flows at a bottleneck the small ones grow and the large ones
// shrink, and the queue has room for one packet of each.
//
// On a long path the pacer spreads the window over the round trip. Otherwise
// packets that are acknowledged in one burst would be sent in one burst again
// and again, and the time of the burst on the wire would look like a queue.
//
// Round trips are also long when the CPU of a host was busy. So only a row of
// long samples means a queue: at least kLongInARow, and all samples of a round
// trip. The shortest of them is the length of the queue. A single long sample
// only ends the doubling of the window. If the round trip of the empty path is
// below kShort, `quiet` packets are enough; for longer paths the limit grows in
// proportion, up to `most`.
//
// A flow that starts while others have queues there takes these for a part of
// the path, and routes change. So a flow that has seen queues lets them drain
// now and then, and measures the path again (as BBR does). That only works if
// all flows of a queue drain it at the same time. They do so at the beginning
// of a second, and more often while they are young. Hosts whose clocks differ
// by less than a few round trips share fairly; other hosts drain at different
// times, which has no use.
//
// A plain value. Thread: one at a time (the holder of the engine's token).

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

#include "transport/base/mutation.h"
#include "transport/cc/congestion_control.h"
#include "transport/cc/reaction_point.h"

namespace urnic::cc {

struct DelayWindow {
  // Windows are in 1/4096 packet, here and in all members without another unit.
  static constexpr uint32_t kPacket = 4096;
  static constexpr uint32_t kMostPackets = 1u << 16;
  // A packet in 16 round trips.
  static constexpr uint32_t kFloor = kPacket / 16;
  // Marks and CNPs can be forged, so they never reduce the window below this.
  static constexpr uint32_t kMarkedFloor = kPacket;
  static constexpr uint32_t kInitial = 16 * kPacket;
  static constexpr uint32_t kDrained = kPacket;
  static constexpr uint32_t kGrowthSteps = 16;
  static constexpr uint32_t kFewLost = 8;      // up to an eighth of a window
  static constexpr uint32_t kLossPeriod = 32;  // packets
  static constexpr uint8_t kLongInARow = 3;
  // The queue that is tolerated: a quarter of the path, between these two.
  static constexpr Duration kQueue = Duration::Microseconds(60);
  static constexpr Duration kLongQueue = Duration::Milliseconds(2);
  // With a window of W packets, it is longer by kSmall / sqrt(W) - kLarge.
  static constexpr Duration kSmall = Duration::Microseconds(1000);
  static constexpr Duration kLarge = Duration::Microseconds(100);
  static constexpr Duration kShort = Duration::Microseconds(50);
  // From here on, a window is spread over its round trip.
  static constexpr Duration kPaceFrom = Duration::Microseconds(500);
  // Queues are drained at the multiples of 2^this ns, which is a second. A flow
  // younger than 8 s does it after an eighth of its age, but not within 34 ms
  // (the first), nor within kDrainApart round trips.
  static constexpr int kFirstDrains = 25;
  static constexpr int kLaterDrains = 30;
  static constexpr int64_t kDrainApart = 128;
  static constexpr uint32_t kAckEveryMost = 32;
  static constexpr uint32_t kBurst = 32'768;  // ns, about
  static constexpr int kAckShiftMax = 5;
  static constexpr int kWireShiftMax = 15;
  // The longest queue that a drain waits for; most buffers are shorter.
  static constexpr Duration kLongestQueue = Duration::Milliseconds(10);
  // Marks are averaged over periods of a round trip, or of this.
  static constexpr Duration kMarkPeriod = Duration::Microseconds(50);

  // Restarts the flow. `packet_bytes`: of a full packet, for the pacer.
  // REQUIRES: 1 <= quiet_packets <= most_packets <= kMostPackets
  void Start(uint32_t quiet_packets, uint32_t most_packets,
             uint32_t packet_bytes) {
    const Duration wall = to_wall;
    *this = DelayWindow();
    to_wall = wall;
    quiet = limit = quiet_packets * kPacket;
    most = most_packets * kPacket;
    full_packet = packet_bytes;
    cwnd = before_cut =
        MUTATION(begins_with_a_whole_window, std::min(quiet, kInitial), quiet);
  }

  // A flow that has joined may need more than the others.
  void Widen(uint32_t quiet_packets, uint32_t most_packets,
             uint32_t packet_bytes) {
    quiet = std::max(quiet, quiet_packets * kPacket);
    most = std::max({most, quiet, most_packets * kPacket});
    ObeyPeer();
    limit = std::max(limit, quiet);
    full_packet = std::max(full_packet, packet_bytes);
  }

  // The peer can hold only this many packets behind a gap; more would be lost.
  void Tighten(uint32_t packets) {
    can_hold = packets * kPacket;
    ObeyPeer();
    limit = std::min(limit, most);
    usual() = std::min(usual(), limit);
  }

  uint32_t window() const { return std::max(cwnd / kPacket, 1u); }
  // The window, without the reduction while the queue is being drained.
  uint32_t usual_window() const {
    return draining ? std::max(after_drain / kPacket, 1u) : window();
  }
  // An acknowledgement is requested at least after this many packets. It allows
  // as many new ones to leave at once, which are a queue for a while. So on a
  // long path the number is a smaller part of the window.
  uint32_t AckEvery() const {
    return std::clamp(
        MUTATION(asks_once_in_a_window, window() >> ack_shift, window()), 1u,
        kAckEveryMost);
  }
  bool Paces() const { return shortest_ns >= kPaceFrom.ns(); }
  // The pacer makes up for a delay of up to this.
  Duration CatchUp() const {
    return std::clamp(Duration::Nanoseconds(shortest_ns >> kAckShiftMax),
                      Pacer::kCatchUp, Pacer::kCatchUpMax);
  }
  // `shortest_ns` has changed.
  void ScaleToPath() {
    constexpr auto kShortNs = static_cast<uint32_t>(kShort.ns());
    ack_shift = static_cast<uint8_t>(
        std::clamp<int>(std::bit_width(shortest_ns / kBurst), 1, kAckShiftMax));
    wire_shift = static_cast<uint8_t>(std::clamp<int>(
        std::bit_width(shortest_ns / kShortNs) - 1, 0, kWireShiftMax));
  }
  // Called after this object was read from an image (image_fields.h). A move
  // ends a drain.
  void AfterMove() {
    ScaleToPath();
    pacer = Pacer();
    if (most != 0 && draining) EndDrain();
    if (most != 0) UpdatePacer();
  }
  // The round trip of an empty path; zero: not known yet.
  Duration Shortest() const { return Duration::Nanoseconds(shortest_ns); }

  void OnAck(const AckSample& sample) {
    heard += sample.packets;
    if (sample.round_trip.ns() != 0) OnRoundTrip(sample.now, sample.round_trip);
    if (__builtin_expect(draining, 0)) {
      // If no sample comes, keep the known values.
      const Duration patience = round_trip * (2 * kDrainedFor);
      if (sample.now - drained_at >= patience) EndDrain();
    } else if (!starting && DrainIsDue(sample.now) && Fills(sample.now)) {
      BeginDrain(sample.now);
    } else {
      Grow(sample);
    }
    if (__builtin_expect(sample.marked, 0)) OnCnp(sample.now);
    if (__builtin_expect(cwnd < kPacket || pacer.active() || Paces(), 0))
      UpdatePacer();
  }

  // The round trip of a packet that was resent, which no AckSample has.
  void OnRoundTrip(Time now, Duration sample) {
    if (__builtin_expect(draining, 0)) return Drain(now, sample);
    round_trip = sample;
    const uint32_t ns = Narrow(sample);
    if (shortest_ns == 0) born_at = drained_at = now;
    if (shortest_ns == 0 || ns < shortest_ns) LearnShortest(ns);
    // In the quiet case the target need not be computed.
    const bool quick = ns <= shortest_ns + kQueue.ns();
    const Duration target = quick ? sample : Target();
    if (sample <= target) {
      above = 0;
      // Other flows also let the queue become short now and then.
      if (competes && now - slowed_at < round_trip * kPatience) return;
      competes = false;
      slowed_from = 0;
      return;
    }
    if (competes) slowed_at = now;
    if (above == 0) BeginRow(now);
    row_least = MUTATION(believes_the_latest_of_long_round_trips,
                         std::min(row_least, ns), ns);
    if (above < kLongInARow) ++above;
    if (above < kLongInARow || (now - row_since).ns() < row_least) return;
    starting = false;
    MUTATION_ADDS(ignores_long_round_trips, return;)
    if (competes || JustCut(now)) return;
    NoteSlowing(row_least, now);
    if (competes) return;
    // A loss may have made the window smaller, and the target longer.
    const int64_t excess = std::max<int64_t>(row_least - target.ns(), 0);
    CutTo(cwnd - static_cast<uint32_t>(std::min<int64_t>(
                     cwnd / 2, cwnd * excess * 4 / 5 / row_least)),
          now);
    before_cut = 0;  // this cut is not undone either
    BeginRow(now);
  }

  // The window is full, and there is more to send.
  void OnFull(Time now) {
    if (!Fills(now)) drained_at = now;  // there was nothing to drain
    full_at = now;
  }

  // `packets` packets were lost. Losses within a round trip, and within
  // kLossPeriod packets, count together, and reduce the window once. True: the
  // window was reduced, now or within the last round trip.
  bool OnLoss(Time now, uint32_t packets) {
    if (now - lost_since > round_trip &&
        MUTATION(forgets_losses_too_soon, heard >= kLossPeriod, true)) {
      lost = heard = 0;
      lost_since = now;
    }
    lost += std::min(packets, kMostPackets);
    if (JustCut(now)) return true;
    if (draining) return false;
    const uint32_t all = std::max(heard, cwnd / kPacket);
    const bool few = MUTATION(cuts_no_small_window_at_losses,
                              lost <= std::max(all / kFewLost, 3u), true);
    const bool quick = above < kLongInARow ||
                       row_least <= static_cast<uint64_t>(Longer().ns());
    MUTATION_SKIPS(takes_losses_for_congestion)
    if (few && quick && !competes) return false;
    const uint32_t before = cwnd;
    CutTo(cwnd / 2, now);
    // Many losses, although the window is small even for a short path: a buffer
    // may have been full of others' packets when the path was measured.
    MUTATION_SKIPS(trusts_a_round_trip_behind_others)
    doubted |= !few && before < quiet;
    if (quick) resume = before / 4 * 3;
    return true;
  }
  void OnRto(Time now) {
    if (!JustCut(now)) CutTo(usual() / 2, now);
  }

  // The latest loss or time-out was a mistake: undoes its cut, once.
  void OnUndo() {
    usual() = std::max(usual(), before_cut);
    before_cut = 0;
  }

  void OnCnp(Time now) {
    const uint32_t before = usual();
    const uint32_t left =
        reaction.OnNotification(now, std::max(round_trip, kMarkPeriod), before);
    if (left == before) return;  // this period has had one
    CutTo(std::max(left, MUTATION(forgers_stop_a_path,
                                  std::min(before, kMarkedFloor), kFloor)),
          now);
    MUTATION_SKIPS(undoes_what_marks_have_cut)
    before_cut = 0;  // this cut is never undone
    resume = before;
  }

  Pacer pacer;  // of windows below one packet, and of long paths
  uint32_t cwnd = 0;
  uint32_t quiet = 0;  // enough for a short path
  uint32_t limit = 0;  // enough for this path
  uint32_t most = 0;
  uint32_t can_hold = 0;     // by the peer; 0: it has held everything so far
  uint32_t full_packet = 0;  // bytes
  uint32_t before_cut = 0;   // OnUndo() restores this; 0: nothing
  bool starting = true;      // twice the window in a round trip
  bool cut = false;          // last_cut is known
  uint8_t above = 0;         // long round trips in a row, up to kLongInARow
  // The packets in flight, shifted right by this, may be in ports; the others
  // are on a long wire (PortRoom).
  uint8_t wire_shift = 0;
  uint8_t ack_shift = 1;  // AckEvery(): the window, shifted right by this
  bool competes = false;  // the queue belongs to others
  // Much was lost: shortest_ns may include the queue of others.
  bool doubted = false;
  bool draining = false;  // the next window is `after_drain`
  // `competes` was set until the last drain that found no queue, and not since.
  bool competed = false;
  Time last_cut;
  Duration round_trip;     // the latest; zero: not known yet
  uint32_t row_least = 0;  // with `above`: ns, the shortest of the row
  Time row_since;          // with `above`: the row, or the latest cut
  // The window and the round trip when we began to slow down; 0: we do not slow
  // down. With `competes`, slowed_at is the time of the latest long round trip.
  uint32_t slowed_from = 0;
  uint32_t slowed_ns = 0;
  Time slowed_at;
  uint32_t shortest_ns = 0;  // of an empty path; 0: not known
  uint32_t after_drain = 0;
  uint32_t shortest_drained = 0;         // ns; 0: not measured yet
  uint32_t drained_before = UINT32_MAX;  // of the previous drain
  uint32_t lost = 0;                     // packets, within a period
  uint32_t heard = 0;                    // those acknowledged in it
  Time full_at;                          // the last time; zero: never
  Time born_at;                          // the first sample
  Time drained_at;                       // when draining began
  Time lost_since;
  // After a cut that no long round trip justified, the window soon grows to
  // this: by half the distance in a round trip. 0: no such cut.
  uint32_t resume = 0;
  ReactionPoint reaction;
  Duration to_wall;  // add this to the time of our clock

 private:
  void ObeyPeer() {
    if (can_hold != 0) most = std::max(quiet, std::min(most, can_hold));
  }

  static constexpr int kDrainedFor = 2;  // round trips
  static constexpr int kPatience = 32;   // round trips

  void BeginRow(Time now) {
    row_since = now;
    row_least = UINT32_MAX;
  }
  // The window when the queue is not being drained.
  uint32_t& usual() { return draining ? after_drain : cwnd; }
  bool JustCut(Time now) const { return cut && now - last_cut < round_trip; }

  // If halving the window does not make the queue a quarter shorter, the queue
  // belongs to others. This is decided after some time, because other flows of
  // our kind slow down, too, and so learn the path. The time is shorter if the
  // queue was others' a moment ago: a drain may have found no queue only
  // because our part of it was gone.
  void NoteSlowing(uint32_t ns, Time now) {
    if (slowed_from == 0 || ns < slowed_ns / 4 * 3) {
      slowed_from = cwnd;
      slowed_ns = ns;
      slowed_at = now;
    } else if (cwnd <= std::max(slowed_from / 2, kFloor) &&
               (now - slowed_at).ns() >=
                   MUTATION(
                       never_competes,
                       (competed ? kPatience / 4 : kPatience) * int64_t{ns},
                       INT64_MAX)) {
      competes = true;
      resume = slowed_from / 4 * (competed ? 3 : 2);  // it was a mistake
      competed = false;
    }
  }

  static uint32_t Narrow(Duration round_trip) {
    return static_cast<uint32_t>(
        std::clamp<int64_t>(round_trip.ns(), 1, UINT32_MAX));
  }
  Duration Target() const {
    // sqrt(W) is sqrt(cwnd) / sqrt(kPacket).
    const auto small =
        static_cast<int64_t>(static_cast<float>(kSmall.ns()) * 64 /
                             std::sqrt(static_cast<float>(cwnd))) -
        kLarge.ns();
    return Longer() +
           Duration::Nanoseconds(std::max<int64_t>(
               MUTATION(leaves_small_windows_no_longer_queue, small, 0), 0));
  }
  // The round trip with the longest queue that is tolerated: a quarter of the
  // path. (With a half, those of a hundred hosts that had taken the queues of
  // others for the path kept too large windows.) While the window doubles, a
  // round trip that is longer by an eighth ends the doubling.
  Duration Longer() const {
    const uint32_t part = starting ? shortest_ns / 8 : shortest_ns / 4;
    return Shortest() +
           std::clamp(Duration::Nanoseconds(part), kQueue, kLongQueue);
  }

  void LearnShortest(uint32_t ns) {
    shortest_ns = ns;
    ScaleToPath();
    limit = ns <= kShort.ns()
                ? quiet
                : static_cast<uint32_t>(std::clamp<uint64_t>(
                      uint64_t{quiet} * ns / static_cast<uint64_t>(kShort.ns()),
                      quiet, most));
    cwnd = std::min(cwnd, limit);
  }

  bool Young(Time now) const {
    return (now - born_at).ns() < int64_t{1} << kLaterDrains;
  }
  // A multiple of the interval has passed since the last drain.
  bool DrainIsDue(Time now) const {
    const auto age = static_cast<uint64_t>((now - born_at).ns());
    int bits = MUTATION(
        young_flows_drain_as_rarely_as_others,
        std::clamp<int>(std::bit_width(age) - 3, kFirstDrains, kLaterDrains),
        kLaterDrains);
    while (!doubted && int64_t{1} << bits < kDrainApart * int64_t{shortest_ns})
      ++bits;
    auto number = [&](Time t) { return (t + to_wall).ns() >> bits; };
    return MUTATION(never_drains_the_queue, number(now) != number(drained_at),
                    false);
  }
  // Whether the window was full in the last round trips, or is small. If not,
  // we do not cause a queue.
  bool Fills(Time now) const {
    constexpr auto kRecent = Duration::Nanoseconds(int64_t{1} << kFirstDrains);
    return cwnd < kPacket || now - full_at <= std::max(round_trip * 2, kRecent);
  }
  // Sends nothing for a round trip, then a packet in each. The last round trip
  // may have been long because the peer slept, so the pause is limited.
  void BeginDrain(Time now) {
    draining = true;
    drained_at = now;
    round_trip = std::min(round_trip, Shortest() * 2 + kLongestQueue);
    after_drain = cwnd;
    shortest_drained = 0;
    cwnd = std::min(cwnd, kDrained);
    pacer.SetRate(full_packet, std::min(round_trip, Duration::Seconds(1)));
    pacer.next_send = now + round_trip;
  }
  // A sample while the queue drains. It counts if its packet was sent after all
  // earlier packets had left the path.
  void Drain(Time now, Duration sample) {
    if (now - sample < drained_at + round_trip) return;
    const uint32_t ns = Narrow(sample);
    shortest_drained =
        shortest_drained == 0 ? ns : std::min(shortest_drained, ns);
    if (now - drained_at < round_trip * kDrainedFor) return;
    round_trip = sample;
    EndDrain();
  }
  void EndDrain() {
    draining = false;
    above = 0;
    // If the round trip is still long, others have kept the queue.
    const uint32_t empty =
        shortest_ns +
        std::max(static_cast<uint32_t>(kQueue.ns()), shortest_ns / 8);
    if (shortest_drained != 0 && shortest_drained <= empty) {
      MUTATION(competes_again_as_late,
               competed = std::exchange(competes, false), competes = false);
    }
    if (!competes) slowed_from = 0;
    cwnd = std::max(cwnd, std::min(after_drain, most));
    pacer.next_send = Time();
    UpdatePacer();
    if (shortest_drained == 0) return;
    doubted = false;
    // Some flows may not have drained the queue this time.
    const uint32_t before = Young(drained_at) ? shortest_ns : drained_before;
    MUTATION_SKIPS(learns_nothing_from_a_drained_queue)
    LearnShortest(std::min(shortest_drained, before));
    drained_before = shortest_drained;
  }

  void Grow(const AckSample& sample) {
    if (cwnd >= limit) {
      cwnd = limit;
      return;
    }
    // A window that was not full in the last round trips says nothing about the
    // path. Up to `quiet`, it may grow nevertheless. Otherwise programs that
    // wait for an answer to each message would begin their bulk transfers
    // slowly.
    if (cwnd >= quiet && sample.now - full_at > round_trip * 2) return;
    MUTATION_SKIPS(grows_while_round_trips_are_long)
    if (above != 0 && !competes) return;
    if (starting && above == 0) {
      cwnd = std::min(limit, cwnd + sample.packets * kPacket);
      return;
    }
    // The growth in a round trip:
    uint32_t more = kPacket;
    if (cwnd < resume) {
      more = std::max(more, (resume - cwnd) / 2);
    } else if (!competes && round_trip <= Halfway()) {
      more = std::max(more, cwnd / kGrowthSteps);
    }
    // The part of the window that was acknowledged, in rounds of whole packets.
    const uint64_t acked = uint64_t{sample.packets} * kPacket;
    cwnd = std::min<uint64_t>(
        limit,
        cwnd + std::max<uint64_t>(acked * more / std::max(cwnd, kPacket), 1));
  }
  Duration Halfway() const {
    return Shortest() + Duration::Nanoseconds((Target() - Shortest()).ns() / 2);
  }

  void CutTo(uint32_t less, Time now) {
    before_cut = usual();
    usual() = std::max(std::min(kFloor, limit), less);
    starting = false;
    cut = true;
    last_cut = now;
    resume = 0;
    if (usual() < kPacket) UpdatePacer();
  }

  // Below one packet, the rate is a window in a round trip. On a long path it
  // is a little more, which spreads the packets in flight over the round trip.
  void UpdatePacer() {
    if (draining) return;
    uint64_t bytes = uint64_t{full_packet} * cwnd / kPacket;
    if (cwnd < kPacket) {
      pacer.SetRate(std::max<uint64_t>(bytes, 1),
                    std::min(round_trip, Duration::Seconds(1)));
    } else if (MUTATION(paces_no_long_path, Paces(), false)) {
      bytes += starting ? bytes : bytes / 4;
      pacer.SetRate(bytes, std::min(Shortest(), Duration::Seconds(1)));
    } else {
      pacer.SetRate(0);
    }
  }
};
static_assert(CongestionControl<DelayWindow>);

}  // namespace urnic::cc
