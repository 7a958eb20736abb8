#pragma once

// Checks the sizes that a program requests for a queue pair. Pure.

#include "absl/status/status.h"
#include "verbs/control/qp_attributes.h"

namespace urnic::control {

// INVALID_ARGUMENT: a size exceeds the limit that the message names.
absl::Status CheckCaps(const QpCaps& caps);

}  // namespace urnic::control
