#pragma once

// Decides whether the helper thread polls a little longer before it sleeps.
//
// If each packet is followed by the next within microseconds, sleeping costs
// more than it saves: the peer must kick, and we must wake. But if the program
// needs the CPU that the helper polls on, the program cannot send the very
// packet that the helper waits for. Only trying shows which case it is:
//
//   - Packets in quick succession are evidence for polling.
//   - Polling that finds no packet is evidence against it, and the next try
//     needs twice as many packets.
//   - If this thread was preempted while it polled, another thread needs the
//     CPU. Then the policy assumes for a second that no CPU is spare, whatever
//     the affinity mask says (riostream between two processes on two CPUs:
//     66 us for a write instead of 190).
//
// A port that cannot wake us is checked every millisecond. How quickly its
// packets follow each other is unknown: the peer may have sent all that it can
// without an answer. A packet found there earns one try.
//
// The effect: a server that sleeps while its memory is read or written gets
// polling after 64 packets. A program that spins on its memory loses 20 us in
// 64 packets, then in 128, and so on up to one in 65536.
//
// One thread.

#include <algorithm>
#include <cstdint>

#include "transport/base/time.h"

namespace urnic {

class SpinPolicy {
 public:
  // `alone`: there is a CPU to spare, so polling takes nothing from others.
  explicit SpinPolicy(bool alone) : alone_(alone) {}

  // Packets have arrived.
  void OnPackets(uint64_t count) {
    evidence_ += count;
    since_sleep_ += count;
  }

  // Nothing has arrived since `last_work`; `previous` is the time of the
  // previous check. True if the thread may continue to poll.
  bool MaySpin(Time now, Time previous, Time last_work) {
    if (now - previous > kPreempted) {
      Forget(std::max(needed_, kNeededWhenPreempted));
      shared_until_ = now + kShared;
      return false;
    }
    const Duration idle = now - last_work;
    if (alone_ && now >= shared_until_ && idle < kSpinAlone) return true;
    if (evidence_ < needed_)
      return polled_ && since_sleep_ != 0 && idle < kSpin;
    if (idle < kSpin) return true;
    // The end of a stream is not a failure.
    Forget(since_sleep_ >= kNeededFirst ? kNeededFirst
                                        : std::min(needed_ * 2, kNeededMost));
    return false;
  }

  // This thread polls at the moment, so the peer need not send a kick.
  bool spinning() const { return evidence_ >= needed_; }

  // A sleep of this length is over. `polled`: packets could not have ended it,
  // because the port cannot wake us.
  void OnSlept(Duration slept, bool polled = false) {
    since_sleep_ = 0;
    polled_ = polled;
    if (slept > kQuick) evidence_ = 0;
  }

 private:
  static constexpr uint64_t kNeededFirst = 64;
  static constexpr uint64_t kNeededMost = 65536;
  static constexpr uint64_t kNeededWhenPreempted = 4096;
  static constexpr Duration kSpin = Duration::Microseconds(20);
  static constexpr Duration kSpinAlone = Duration::Microseconds(50);
  static constexpr Duration kQuick = Duration::Microseconds(50);
  static constexpr Duration kPreempted = Duration::Microseconds(100);
  static constexpr Duration kShared = Duration::Seconds(1);

  void Forget(uint64_t needed) {
    needed_ = needed;
    evidence_ = 0;
    polled_ = false;
  }

  const bool alone_;
  Time shared_until_;      // other threads have shown that they want our CPU
  uint64_t evidence_ = 0;  // packets in quick succession
  uint64_t needed_ = kNeededFirst;
  uint64_t since_sleep_ = 0;  // packets
  bool polled_ = false;       // see OnSlept(), of the last sleep
};

}  // namespace urnic
