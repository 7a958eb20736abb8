#pragma once

// What a queue pair may be asked for at its creation. Pure.

#include "absl/status/status.h"
#include "verbs/control/qp_attributes.h"

namespace urnic::control {

// INVALID_ARGUMENT: a size is beyond the limit that the message names.
absl::Status CheckCaps(const QpCaps& caps);

}  // namespace urnic::control
