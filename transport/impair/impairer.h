#pragma once

// The faults of one direction of a wire: it delays, loses, duplicates,
// corrupts, reorders, slows down and marks frames, stalls and dies.
//
// This is only the rule: a frame's length and the time go in, its fate comes
// out, and the caller keeps the frame until it leaves (line.h for real frames,
// tests/sim/link.h in virtual time). The same configuration, seed, times and
// lengths give the same fates. Time does not go backwards.
//
// A frame passes, in this order:
//   die        from then on nothing enters;
//   rate       the queue of a slow wire: tail drop when the buffer is full,
//              RED by the bytes ahead of it; a stall stops it;
//   loss       in bursts (Gilbert-Elliott), then single frames;
//   duplicate  a copy, which passes the rest by itself and is never corrupted;
//   corrupt    some bits flip;
//   delay      always; jitter: up to this much more; reorder: held back.

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/base/random.h"
#include "transport/base/time.h"
#include "transport/impair/counts.h"
#include "transport/impair/spell.h"

namespace urnic::impair {

// Shares are parts per million.
inline constexpr uint32_t kAll = 1'000'000;

// Gilbert (1960), Elliott (1963): the wire is good or bad. A frame that finds
// it good turns it bad with `enter`; each frame that finds it bad is lost with
// `loss`, and then turns it good with `leave`. A burst is 1/leave frames long
// on average.
struct Bursts {
  uint32_t enter_ppm = 0;
  uint32_t leave_ppm = kAll;
  uint32_t loss_ppm = kAll;
};

// Random early detection by the current queue, not by its average, as in
// switches of RDMA networks: no frame below `min`, a share that grows to
// `max_ppm` at `max`, and every frame above.
struct Red {
  uint64_t min_bytes = 0;
  uint64_t max_bytes = 0;  // 0: off
  uint32_t max_ppm = kAll;
};

struct Config {
  Duration delay;
  Duration jitter;
  // A frame with less jitter may overtake one with more. Otherwise it waits.
  bool jitter_reorders = false;
  uint32_t loss_ppm = 0;
  Bursts bursts;
  uint32_t duplicate_ppm = 0;
  Duration duplicate_by;  // the copy is up to this much later
  uint32_t corrupt_ppm = 0;
  uint32_t reorder_ppm = 0;
  Duration reorder_by;           // held back for up to this long
  uint64_t bits_per_second = 0;  // 0: infinitely fast, without a queue
  uint64_t buffer_bytes = 0;     // of the queue in front of `rate`
  Red red;
  Spell stall;         // nothing leaves the queue
  Duration die_after;  // 0: never
};

//= IEEE 802.3 4.4.2: in addition to each frame, the wire carries a preamble, an
//= FCS and a gap between frames
// Rate, buffer and RED include this overhead.
inline constexpr size_t kWireOverheadBytes = 8 + 4 + 12;

struct Fate {
  Time leaves = Time::Infinite();       // never: it is lost
  Time copy_leaves = Time::Infinite();  // never: there is no copy
  bool corrupt = false;                 // Corrupt() the frame, not its copy
  bool mark = false;                    // MarkCe() both
};

// One thread at a time.
class Impairer {
 public:
  // `start`: stall and die count from here.
  Impairer(const Config& config, uint64_t seed, Time start);

  // Changes the faults; time and queue continue. Frames that have their fate
  // keep it, and later ones queue behind them.
  void Reconfigure(const Config& config);

  // `bytes`: from the Ethernet header on, without the FCS. `ect`: the frame's
  // ends support ECN (IsEct()). Counts all but delivered, no_room, failed.
  Fate Offer(Time now, size_t bytes, bool ect);

  // Flips one to three bits. REQUIRES: !frame.empty()
  void Corrupt(std::span<uint8_t> frame);

  Counts& counts() { return counts_; }
  const Counts& counts() const { return counts_; }

 private:
  bool Hit(uint32_t ppm) { return ppm != 0 && random_.Below(kAll) < ppm; }
  Duration Below(Duration limit);
  // How long the queue has been unstalled since the start, and the time when
  // that reaches `unstalled`.
  Duration Unstalled(Time now) const;
  Time WhenUnstalled(Duration unstalled) const;
  // How long the wire takes for `bytes`.
  Duration WireTime(uint64_t bytes) const;
  // False: there is no room, or RED drops it.
  bool EnterQueue(Time now, size_t bytes, bool ect, Fate& fate);
  bool HitByRed(Duration queue);
  bool IsLost();
  // When a frame arrives that has left the queue.
  Time Arrival(Time left, bool is_copy);

  Config config_;
  // The sizes of config_, as times on the wire.
  Duration buffer_;
  Duration red_min_;
  Duration red_max_;
  const Time start_;
  Random random_;
  Duration queue_end_;  // in unstalled time
  Time queue_empty_;    // the same as a time, from the last frame's fate
  Time last_arrival_;
  bool bad_ = false;
  Counts counts_;
};

}  // namespace urnic::impair
