#pragma once

// A failure (datapath/engine/failures.h) in words for people. Pure.

#include <optional>
#include <string>

#include "datapath/engine/failures.h"
#include "transport/work/types.h"

namespace urnic::control {

// What was tried and seen, as in "8 time-outs of 67 ms passed, and PSN 5 was
// not acknowledged". Empty: there is nothing to say beyond the code's text.
std::string WhyText(const Failure& failure);

// "qp 23 of 10.1.0.1", "10.1.0.1:7174", or empty.
std::string PeerText(const Failure& failure);

// The time of day, in nanoseconds since 1970 and as text:
// "2026-11-25T14:03:07.123456Z".
int64_t WallTimeNow();
std::string WallTimeText(int64_t ns);
// What it was so long ago.
std::string WallTimeText(Duration ago);

// None: the event is not a failure.
std::optional<ErrorCode> CodeOfEvent(QpEvent event);

}  // namespace urnic::control
