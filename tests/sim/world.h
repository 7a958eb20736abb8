#pragma once

// Virtual time and what happens in it. One seed and one World make one run:
// nothing here reads a clock or real randomness.

#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/random.h"
#include "transport/base/time.h"

namespace urnic::sim {

using testing::Random;

// A rule of the oracle was broken. Thrown, so that a run ends immediately and
// the caller can print how to replay it.
struct Violation {
  std::string what;
};

[[noreturn]] inline void Violate(const std::string& what) {
  throw Violation{what};
}
inline void Require(bool condition, const char* what) {
  if (!condition) Violate(what);
}

class World {
 public:
  Time now() const { return now_; }
  // A clock that is `ahead` of the world's, for code that reads the time
  // itself.
  const Time* clock(Duration ahead = {}) {
    clocks_.push_back({ahead, now_ + ahead});
    return &clocks_.back().shows;
  }

  // Events at the same time run in the order in which they were made.
  void At(Time when, std::function<void()> what) {
    events_.push(Event{std::max(when, now_), next_++, std::move(what)});
  }
  void After(Duration delay, std::function<void()> what) {
    At(now_ + delay, std::move(what));
  }

  // Runs events until there are none or the next one is after `limit`. False in
  // the second case.
  bool RunUntil(Time limit) {
    while (!events_.empty()) {
      if (events_.top().when > limit) return false;
      // The queue gives only const access to what it is about to drop.
      Event event = std::move(const_cast<Event&>(events_.top()));
      events_.pop();
      now_ = event.when;
      for (Clock& clock : clocks_) clock.shows = now_ + clock.ahead;
      event.what();
      ++events_run_;
    }
    return true;
  }
  uint64_t events_run() const { return events_run_; }

 private:
  struct Event {
    Time when;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Event& other) const {  // the earliest on top
      return when != other.when ? when > other.when : order > other.order;
    }
  };

  struct Clock {
    Duration ahead;
    Time shows;
  };

  std::deque<Clock> clocks_;  // a deque, because addresses must stay
  Time now_ = Time::FromNs(1000000000);
  uint64_t next_ = 0;
  uint64_t events_run_ = 0;
  std::priority_queue<Event> events_;
};

}  // namespace urnic::sim
