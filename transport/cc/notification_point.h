#pragma once

// The receiver of packets that are marked "congestion experienced". It notifies
// their sender by a congestion notification packet (CNP).
//
//= IBTA A17.9.3: a receiver limits the rate of CNPs for each flow

#include "transport/base/mutation.h"
#include "transport/base/time.h"

namespace urnic::cc {

struct NotificationPoint {
  // Another mark adds little information while the sender still reacts to the
  // last CNP. Hardware uses 50 us, too.
  static constexpr Duration kInterval = Duration::Microseconds(50);

  void OnMarked(Time now) {
    MUTATION_SKIPS(notifies_of_each_mark)
    if (now < quiet_until) return;
    quiet_until = now + kInterval;
    due = true;
  }

  Time quiet_until;
  bool due = false;  // a CNP waits to be sent; the sender clears this
};

}  // namespace urnic::cc
