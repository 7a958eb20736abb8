#pragma once

// The end that packets reach with the mark "congestion experienced", and that
// tells their sender by a congestion notification packet (CNP).
//
//= IBTA A17.9.3: CNPs are limited in rate; each flow has one of these

#include "transport/base/time.h"

namespace urnic::cc {

struct NotificationPoint {
  // One mark more says little while the sender still answers the last CNP; 50
  // us is what hardware takes for this.
  static constexpr Duration kInterval = Duration::Microseconds(50);

  void OnMarked(Time now) {
    if (now < quiet_until) return;
    quiet_until = now + kInterval;
    due = true;
  }

  bool due = false;  // a CNP waits to be sent; who sends it clears this
  Time quiet_until;
};

}  // namespace urnic::cc
