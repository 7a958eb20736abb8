#pragma once

// Which state may follow which, and with which attributes. RoCE: as Linux
// checks it for every device (ib_modify_qp_is_ok). iWARP: as Linux's siw does
// it. Windows of RUD only go to ERR. On iWARP a program only moves a queue pair
// to ERR, and back by RESET; rdma_cm moves it to RTS. No queue pair of iWARP
// stays in RESET: a new one is in INIT, which is the Idle state of the RDMA
// verbs specification. librdmacm makes the same calls for both kinds of device,
// so some calls succeed without an effect. Pure.

#include <cstdint>

#include "absl/status/status.h"
#include "transport/work/types.h"

namespace urnic::control {

// The attributes of a transition, QpAttrMask. kQpState is implied.
struct QpTransition {
  bool valid = false;
  uint32_t required = 0;
  uint32_t optional = 0;
  QpState enters = QpState::kReset;  // the state afterwards
  uint32_t ignored = 0;              // of the optional ones: have no effect
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
