#pragma once

// Decides whether an acknowledgement waits for an answer of the program to data
// that has arrived in its memory.
//
// A program that spins on memory answers a write by a write. If the
// acknowledgement of the first leaves alone, the peer finds its completion,
// leaves the completion queue and spins on memory as well. Then nobody polls
// when the answer arrives, and a sleeping runner must be woken for it. If the
// acknowledgement leaves together with the answer, the peer still polls when
// both arrive, and nobody must be woken.
//
// Only trying shows whether a program answers:
//
//   - Each time the runner receives data for which no completion is written,
//     and the next event is a post of the program, counts as an answer. Data
//     upon data without a post between them is evidence against it.
//   - After kNeededFirst answers in a row acknowledgements wait, for kWait at
//     most. An answer that comes in time is worth a quarter of a wait without
//     one.
//   - If too many waits brought no answer, twice as many answers are needed for
//     the next try, until the program has answered kTrusted times in time.
//
// So the acknowledgements of a passive program (one-sided writes to a server
// that sleeps) never wait, and a program that changes its habit pays for a few
// waits. A program that has lost its CPU for a moment keeps its credit.
//
// Token holder.

#include <algorithm>
#include <cstdint>

#include "transport/base/time.h"

namespace urnic {

class AnswerPolicy {
 public:
  // Shorter than the first retransmission timeout of the peer (224 us), and
  // longer than a program needs to run after the runner on the same CPU.
  static constexpr Duration kWait = Duration::Microseconds(60);

  // Data has arrived that the program can only find in its memory, and there
  // are only acknowledgements to send. True: they wait, until until() at most.
  bool OnData(Time now) {
    if (!expects_answers_) {
      if (waits_for_post_) answers_ = 0;
      waits_for_post_ = true;
      return false;
    }
    waits_for_post_ = true;
    if (!waiting()) until_ = now + kWait;
    return true;
  }
  // The program has posted a request.
  void OnPost() {
    if (__builtin_expect(!waits_for_post_, 1)) return;
    waits_for_post_ = false;
    if (waiting()) {
      until_ = Time::Infinite();
      credit_ = std::min(credit_ + 1, kCreditMost);
      if (++in_time_ >= kTrusted) needed_ = kNeededFirst;
    } else if (!expects_answers_ && ++answers_ >= needed_) {
      expects_answers_ = true;
      credit_ = kVainWait;
      in_time_ = 0;
    }
  }
  // There is still an acknowledgement to send. True: it waits.
  bool MayWait(Time now) {
    if (__builtin_expect(!waiting(), 1)) return false;
    if (now < until_) return true;
    until_ = Time::Infinite();
    if (credit_ >= kVainWait) {
      credit_ -= kVainWait;
    } else {
      expects_answers_ = false;
      answers_ = 0;
      needed_ = std::min(needed_ * 2, kNeededMost);
    }
    return false;
  }

  bool expects_answers() const { return expects_answers_; }
  // Infinite if no acknowledgement waits.
  Time until() const { return until_; }
  bool waiting() const { return !until_.IsInfinite(); }

 private:
  static constexpr uint32_t kNeededFirst = 4;
  static constexpr uint32_t kNeededMost = 4096;
  static constexpr uint32_t kVainWait = 4;
  static constexpr uint32_t kCreditMost = 32;
  static constexpr uint32_t kTrusted = 64;

  bool waits_for_post_ = false;  // since the last data
  bool expects_answers_ = false;
  uint32_t answers_ = 0;  // in a row
  uint32_t needed_ = kNeededFirst;
  uint32_t credit_ = 0;
  uint32_t in_time_ = 0;  // answers since acknowledgements began to wait
  Time until_ = Time::Infinite();
};

}  // namespace urnic
