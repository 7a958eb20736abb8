#pragma once

// What a requester knows about its packets in flight when the peer, or a
// response behind a gap, has shown that some are missing. It is a list of runs
// of missing PSNs ("gaps"), in order. The peer holds the packets between them.
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

// A report of the peer, or what follows from received responses, about the PSNs
// from `first` up to `end`: PSN `first` has not arrived, and PSN first + 1 + i
// has arrived if bit i of `held` is set. Bits beyond the end of `held` are 0.
struct GapReport {
  Psn first;
  Psn end;
  std::span<const uint8_t> held = {};
  // The PSNs are those of read responses. The last ones arrive long after the
  // request was sent.
  bool responses = false;
};

// What was learned from gaps that have closed.
struct ClosedGaps {
  // The longest waiting time of a gap that closed by itself.
  Duration reordered;
  // A gap was resent, and a part of it has arrived since then.
  bool repaired = false;
  // ... the time between the two, if the gap was resent once. Zero: unknown.
  Duration repair_time;
  // ... which is clearly too short for an answer to the resent packet.
  bool needless = false;
};

class Gaps {
 public:
  // Further gaps are not stored: the peer will report them again.
  static constexpr uint32_t kMax = 64;

  // Forgets all gaps. Nothing is known about the PSNs from `una` on.
  void Start(Psn una) {
    count_ = due_ = resent_ = lost_ = 0;
    known_end_ = forgiven_end_ = una;
    marked_ = false;
  }

  bool empty() const { return count_ == 0; }
  uint32_t count() const { return count_; }
  const Gap& at(uint32_t i) const { return gaps_[i]; }
  // Whether a gap must be resent now.
  bool any_due() const { return due_ != 0; }
  // REQUIRES: any_due()
  const Gap& FirstDue() const { return gaps_[FirstDueIndex()]; }
  // The number of PSNs that were found to be lost since the last call. A PSN
  // may be lost several times.
  uint32_t TakeLost() { return std::exchange(lost_, 0); }
  // The sender has slowed down because of losses. Further losses among the
  // packets sent before now (up to `sent`) have the same cause and do not
  // count: when a queue overflows, the reports of several round trips show the
  // losses.
  void Forgive(Psn sent) {
    MUTATION_SKIPS(counts_losses_of_one_overflow_again)
    forgiven_end_ = sent;
  }

  // How many of the PSNs from `una` on are not in flight: they are missing and
  // were not resent, or the peer holds them.
  uint32_t NotUnderWay(Psn una) const {
    const int32_t known = known_end_ - una;
    return known <= 0 ? 0
                      : static_cast<uint32_t>(known) -
                            std::min(resent_, static_cast<uint32_t>(known));
  }

  // `sent`: the first PSN that was not sent. `una`: everything before it is
  // acknowledged. `round_trip`: a resent gap is only missing again if it is
  // reported after that time. `shortest`: see ClosedGaps::needless.
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

  // The missing PSNs from the first due gap up to `end` were resent. `sent`:
  // the first PSN that was not sent.
  void OnResent(Psn end, Psn sent, Time now);

 private:
  uint32_t FirstDueIndex() const;
  // Splits the gap with this index in two; the first one gets `packets`
  // packets.
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
  // While marked_: mark_ is a resent packet, and all other PSNs before
  // mark_sent_ were sent before it. So if mark_ has arrived and one of them has
  // not, that one is missing, even if no report covers it.
  bool marked_ = false;
  Psn mark_;
  Psn mark_sent_;
};

}  // namespace urnic::rc
