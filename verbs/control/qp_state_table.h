#pragma once

// The allowed state transitions of queue pairs, and the attributes of each.
// Pure.
//
// RoCE follows Linux's check for all devices (ib_modify_qp_is_ok), and iWARP
// follows Linux's siw. Windows of RUD only go to ERR. On iWARP a program only
// moves a queue pair to ERR, and back by RESET; rdma_cm moves it to RTS. No
// queue pair of iWARP stays in RESET: a new one is in INIT, which is the Idle
// state of the RDMA verbs specification. librdmacm makes the same calls for
// both kinds of device, so some calls succeed without an effect on iWARP.

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
  uint32_t ignored = 0;              // optional ones without an effect
};

QpTransition FindQpTransition(QpService service, QpState from, QpState to);

// INVALID_ARGUMENT, with a message that names states and attributes: the
// transition does not exist, `mask` lacks a required attribute, or `mask` has
// an attribute that the transition does not allow.
absl::Status CheckQpTransition(QpService service, QpState from, QpState to,
                               uint32_t mask);

// "RESET", "INIT", ..
const char* QpStateName(QpState state);

}  // namespace urnic::control
