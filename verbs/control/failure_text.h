#pragma once

// A failure (datapath/engine/failures.h) in words for people. Pure.

#include <optional>
#include <string>

#include "datapath/engine/failures.h"
#include "transport/work/types.h"

namespace urnic::control {

// The reason, as in "8 time-outs of 67 ms passed, and PSN 5 was not
// acknowledged". Empty: the text of the error code says everything.
std::string WhyText(const Failure& failure);

// "qp 23 of 10.1.0.1", "10.1.0.1:7174", or empty.
std::string PeerText(const Failure& failure);

// None: the event is not a failure.
std::optional<ErrorCode> CodeOfEvent(QpEvent event);

}  // namespace urnic::control
