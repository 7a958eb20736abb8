#pragma once

// What a requester knows of its packets under way, once the peer, or a response
// behind a hole, has said that some are missing: runs of missing PSNs ("gaps"),
// in order. Between them lie packets that the peer holds.
//
//   kWaits ─(the time of reordering)─► kDue ─(sent again)─► kResent
//     ▲ closes by itself: reordering                          │
//     └───────── reported again, more than a round trip later ┘
//
// Pure values; thread: the holder of the engine's token.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "transport/base/mutation.h"
#include "transport/base/psn.h"
#include "transport/base/time.h"

namespace urnic::rc {

struct Gap {
  enum class State : uint8_t { kWaits, kDue, kResent };

  Psn end() const { return begin + static_cast<int32_t>(packets); }

  Psn begin;
  uint32_t packets = 0;  // PSNs
  State state = State::kWaits;
  bool twice = false;    // it was sent again more than once
  bool counted = false;  // as lost (TakeLost())
  Time since;            // kWaits: first reported; kResent: sent again
};

// What a peer says, or what follows from the responses that have come: of the
// PSNs from `first` up to `end`, the first has not arrived, and PSN
// first + 1 + i has if bit i of `held` is set. Bits beyond its end are 0.
struct GapReport {
  Psn first;
  Psn end;
  std::span<const uint8_t> held = {};
  // Of a read: they come one after the other, long after it was asked for.
  bool responses = false;
};

// Gaps that are gone.
struct ClosedGaps {
  // The longest time for which one waited that closed by itself.
  Duration reordered;
  // One was sent again, and something of it has arrived since then.
  bool repaired = false;
  // ... the time from the one to the other, if it was sent again once. Zero:
  // not known.
  Duration repair_time;
  // ... which is clearly shorter than an answer takes.
  bool needless = false;
};

class Gaps {
 public:
  // More are not remembered: the peer will report them again.
  static constexpr uint32_t kMax = 64;

  // Forgets all. Nothing is known of the PSNs from `una` on.
  void Start(Psn una) {
    count_ = due_ = resent_ = lost_ = 0;
    known_end_ = forgiven_end_ = una;
    marked_ = false;
  }

  bool empty() const { return count_ == 0; }
  uint32_t count() const { return count_; }
  const Gap& at(uint32_t i) const { return gaps_[i]; }
  // Whether one is to be sent now.
  bool any_due() const { return due_ != 0; }
  // REQUIRES: any_due()
  const Gap& FirstDue() const { return gaps_[FirstDueIndex()]; }
  // The PSNs that were found to be lost since the last call, perhaps again.
  uint32_t TakeLost() { return std::exchange(lost_, 0); }
  // The sender has slowed down for what was lost. Losses of what was sent
  // before, up to `sent`, belong to these and do not count: where a queue
  // overflowed, reports of several round trips tell of them.
  void Forgive(Psn sent) {
    MUTATION_SKIPS(counts_losses_of_one_overflow_again)
    forgiven_end_ = sent;
  }

  // Of the PSNs from `una` on, so many are not under way: they are missing and
  // were not sent again, or the peer holds them.
  uint32_t NotUnderWay(Psn una) const {
    const int32_t known = known_end_ - una;
    return known <= 0 ? 0
                      : static_cast<uint32_t>(known) -
                            std::min(resent_, static_cast<uint32_t>(known));
  }

  // `una`: everything before is acknowledged. `sent`: nothing from there on was
  // sent. `round_trip`: a gap that was sent again is missing again only if it
  // is reported after that time. `shortest`: see ClosedGaps::needless.
  ClosedGaps OnReport(const GapReport& report, Psn sent, Time now,
                      Duration round_trip, Duration shortest);
  ClosedGaps OnAcked(Psn una, Time now, Duration shortest);

  // Gaps that have waited for `wait` become due. Returns when to call this
  // again: never, if no gap waits.
  Time MakeDue(Time now, Duration wait);

  // REQUIRES: not empty
  void MakeFirstDue() {
    gaps_[0].twice |= gaps_[0].state == Gap::State::kResent;
    gaps_[0].state = Gap::State::kDue;
    Recount();
  }

  // The first gap that is due waits again.
  void PostponeFirstDue(Time now);

  // The missing PSNs before `end`, from the first gap that is due on, were sent
  // again. `sent`: nothing from there on was sent.
  void OnResent(Psn end, Psn sent, Time now);

 private:
  uint32_t FirstDueIndex() const;
  // The gap with this index becomes two, the first of so many packets.
  void SplitAfter(uint32_t index, uint32_t packets);
  void CountLost(Gap& gap) {
    if (std::exchange(gap.counted, true)) return;
    if (gap.twice || gap.begin - forgiven_end_ >= 0) lost_ += gap.packets;
  }
  // Appends to the list that is being made; false: there is no room.
  bool Append(const Gap& gap);
  // The part of it from `begin` on.
  bool AppendFrom(Psn begin, Gap gap);
  void NoteClosed(const Gap& gap, Time now, Duration shortest,
                  ClosedGaps& closed) const;
  void Recount();

  std::array<Gap, kMax> gaps_;
  uint32_t count_ = 0;
  uint32_t due_ = 0;     // gaps
  uint32_t resent_ = 0;  // PSNs
  uint32_t lost_ = 0;    // PSNs
  Psn known_end_;        // of what was reported
  Psn forgiven_end_;
  // A packet that was sent again after all others before mark_sent_: what has
  // not arrived when it has is missing, although no report may tell of it.
  bool marked_ = false;
  Psn mark_;
  Psn mark_sent_;
};

}  // namespace urnic::rc
