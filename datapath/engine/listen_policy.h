#pragma once

// Decides whether a runner that watches a program listens to the port while
// nobody polls (docs/design/0002-the-token.md).
//
// A program that polls a completion queue leaves it and comes back; what
// arrives meanwhile can wait for it. A program that spins on memory leaves the
// queue and waits for a frame that nobody takes. Only what happens shows which
// kind it is:
//
//   - The watching runner takes over, because nobody has polled since its last
//     look, and finds frames that had to wait: evidence for listening.
//   - While it listens, the port raises wake-ups from the moment that the
//     program leaves its queue with a completion until it polls again and
//     finds nothing.
//     If that has brought nothing kWastedMost times in a row, the program polls
//     after all: the runner stops listening, and needs twice the evidence
//     next time.
//
// A program that polls and has lost its CPU for a millisecond looks like one
// that spins on memory. It pays 64 times for that, then not before it has lost
// its CPU four times, and so on.
//
// Token holder, except listens().

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace urnic {

class ListenPolicy {
 public:
  enum class Act : uint8_t { kNothing, kArm, kDisarm };

  // Any thread.
  bool listens() const { return listens_.load(std::memory_order_relaxed); }

  // The runner has taken over, because it saw no poll, and has found this many
  // packets.
  void OnLook(uint64_t packets) {
    if (packets == 0 || listens()) return;
    if (++late_ < needed_) return;
    wasted_ = 0;
    SetListens(true);
  }
  // The runner has taken over because the port woke it.
  void OnWoken(uint64_t packets) {
    if (packets != 0) {
      wasted_ = 0;
    } else {
      OnWasted();
    }
  }

  // The program polls while the runner watches. `leaves`: it has found
  // completions, and will probably not poll again soon. `armed`: the port
  // raises wake-ups. Returns what to do with the port. REQUIRES: listens().
  Act OnPoll(bool leaves, bool armed) {
    if (leaves) {
      in_vain_ = 0;
      return armed ? Act::kNothing : Act::kArm;
    }
    if (!armed || ++in_vain_ < kPollsInVain) return Act::kNothing;
    OnWasted();
    return Act::kDisarm;
  }

 private:
  static constexpr uint32_t kNeededFirst = 2;
  static constexpr uint32_t kNeededMost = 64;
  static constexpr uint32_t kWastedMost = 64;
  // A program that looks at its queue once or twice between looks at its memory
  // has not come back to poll.
  static constexpr uint32_t kPollsInVain = 4;

  void OnWasted() {
    if (++wasted_ < kWastedMost) return;
    late_ = 0;
    needed_ = std::min(needed_ * 2, kNeededMost);
    SetListens(false);
  }
  void SetListens(bool listens) {
    listens_.store(listens, std::memory_order_relaxed);
  }

  std::atomic<bool> listens_{false};
  uint32_t late_ = 0;  // take-overs that found packets
  uint32_t needed_ = kNeededFirst;
  uint32_t wasted_ = 0;   // in a row
  uint32_t in_vain_ = 0;  // polls since the program left
};

}  // namespace urnic
