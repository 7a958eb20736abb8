#pragma once

// One direction of a wire in virtual time that loses, repeats and delays
// packets of any type, for tests that need no frames (transport/impair has
// these).

#include <cstdint>
#include <map>

#include "transport/base/random.h"
#include "transport/base/time.h"

namespace urnic::testing {

struct WireFaults {
  uint32_t loss_percent = 0;
  uint32_t duplicate_percent = 0;
  uint32_t reorder_percent = 0;
  Duration delay = Duration::Microseconds(50);
  Duration reorder_by = Duration::Microseconds(500);
};

template <typename Packet>
class BadWire {
 public:
  void Put(const Packet& packet, const WireFaults& faults, Time now,
           Random& random) {
    const auto hit = [&](uint32_t percent) {
      return percent != 0 && random.Below(100) < percent;
    };
    if (hit(faults.loss_percent)) return;
    Time when = now + faults.delay;
    if (hit(faults.reorder_percent)) {
      when = when + Duration::Nanoseconds(static_cast<int64_t>(
                        random.Below(uint64_t(faults.reorder_by.ns()))));
    }
    under_way_.emplace(when, packet);
    if (hit(faults.duplicate_percent)) under_way_.emplace(when, packet);
  }
  // When the next packet arrives; never: there is none.
  Time next() const {
    return under_way_.empty() ? Time::Infinite() : under_way_.begin()->first;
  }
  // REQUIRES: next() is not infinite
  Packet Take() { return under_way_.extract(under_way_.begin()).mapped(); }

 private:
  std::multimap<Time, Packet> under_way_;
};

}  // namespace urnic::testing
