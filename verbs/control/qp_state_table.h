#pragma once

// Which state may follow which, and with which attributes, as Linux checks it
// for every device (ib_modify_qp_is_ok). Pure.

#include <cstdint>

#include "absl/status/status.h"
#include "transport/work/types.h"

namespace urnic::control {

// The attributes of a transition, QpAttrMask. kQpState is implied.
struct QpTransition {
  bool valid = false;
  uint32_t required = 0;
  uint32_t optional = 0;
};

QpTransition FindQpTransition(QpService service, QpState from, QpState to);

// INVALID_ARGUMENT, naming states and attributes: no such transition, one of
// the required attributes missing from `mask`, or one in it that the
// transition does not take.
absl::Status CheckQpTransition(QpService service, QpState from, QpState to,
                               uint32_t mask);

// "RESET", "INIT", ..
const char* QpStateName(QpState state);

}  // namespace urnic::control
