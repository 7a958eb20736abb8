#pragma once

// When a lasting fault begins and ends. An age is the time since the port was
// made.

#include <optional>

#include "transport/base/time.h"

namespace urnic::impair {

// From `after` on, for `length`; repeated at intervals of `every` (start to
// start; 0: once). REQUIRES: every = 0 or every > length
struct Spell {
  Duration after = {};
  Duration length = {};  // 0: never
  Duration every = {};

  // When the latest one began; none: it has not happened yet.
  std::optional<Duration> LastBegin(Duration age) const;
  // Whether one is under way.
  bool Covers(Duration age) const;
  // The first begin or end after `age`; none: there is no more.
  std::optional<Duration> NextEdge(Duration age) const;
};

}  // namespace urnic::impair
