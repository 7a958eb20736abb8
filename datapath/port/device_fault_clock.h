#pragma once

// Tells the keeper of a port when injected faults of its device begin and end
// (`--fault down=.., remove=.., reset=..`, transport/impair/fault_spec.h). One
// thread.

#include <optional>

#include "transport/base/time.h"
#include "transport/impair/fault_spec.h"

namespace urnic {

class DeviceFaultClock {
 public:
  // The times of the faults are relative to `start`.
  DeviceFaultClock(const impair::DeviceFaults& faults, Time start)
      : faults_(faults), start_(start) {}

  bool IsDown(Time now) const { return faults_.down.Covers(now - start_); }
  bool IsRemoved(Time now) const {
    return faults_.removed.Covers(now - start_);
  }
  // True once for each reset that is due.
  bool TakeReset(Time now) {
    const std::optional<Duration> due = faults_.reset.LastBegin(now - start_);
    if (!due || due == taken_) return false;
    taken_ = due;
    return true;
  }
  // Milliseconds until the next fault begins or ends, rounded up; -1: there is
  // none.
  int MsToNextEdge(Time now) const {
    std::optional<Duration> next;
    for (const impair::Spell* spell :
         {&faults_.down, &faults_.removed, &faults_.reset}) {
      const std::optional<Duration> edge = spell->NextEdge(now - start_);
      if (edge && (!next || *edge < *next)) next = edge;
    }
    if (!next) return -1;
    return static_cast<int>((start_ + *next - now).ns() / 1'000'000) + 1;
  }

 private:
  const impair::DeviceFaults faults_;
  const Time start_;
  std::optional<Duration> taken_;
};

}  // namespace urnic
