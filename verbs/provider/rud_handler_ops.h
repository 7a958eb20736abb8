#pragma once

// Handlers that windows of RUD wake: the functions behind "Sleeping" in
// urnic_dv.h, which says what they do. Each is wrapped by verb.h.

#include "verbs/direct/urnic_dv.h"

namespace urnic::provider {

urnic_dv_handler* CreateHandler(ibv_context* ibv,
                                const urnic_dv_handler_attr* attr);
int DestroyHandler(ibv_context* ibv, urnic_dv_handler* handler);
int ArmHandler(ibv_context* ibv, urnic_dv_handler* handler);
int DisarmHandler(ibv_context* ibv, urnic_dv_handler* handler);
int BindHandlers(ibv_qp* qp, const urnic_dv_wake_attr* attr);

}  // namespace urnic::provider
