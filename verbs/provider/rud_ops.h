#pragma once

// Windows of RUD: what the functions behind urnic_dv.h share (rud_ops.cc), and
// those behind its section "Sleeping" (rud_handler_ops.cc). Each is wrapped by
// verb.h.

#include "verbs/control/qp.h"
#include "verbs/direct/urnic_dv.h"

namespace urnic::provider {

// EOPNOTSUPP, and the program was told.
int RefuseMask(ibv_context* ibv, const char* verb, uint64_t mask);
// Null: it is not a window, and the program was told.
control::Qp* WindowOf(ibv_qp* qp, const char* verb);

urnic_dv_handler* CreateHandler(ibv_context* ibv,
                                const urnic_dv_handler_attr* attr);
int DestroyHandler(ibv_context* ibv, urnic_dv_handler* handler);
int ArmHandler(ibv_context* ibv, urnic_dv_handler* handler);
int DisarmHandler(ibv_context* ibv, urnic_dv_handler* handler);
int BindHandlers(ibv_qp* qp, const urnic_dv_wake_attr* attr);

}  // namespace urnic::provider
