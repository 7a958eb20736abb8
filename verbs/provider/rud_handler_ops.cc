#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ras/errors/refusal.h"
#include "verbs/control/rud_wake.h"
#include "verbs/provider/context.h"
#include "verbs/provider/objects.h"
#include "verbs/provider/ops.h"
#include "verbs/provider/rud_ops.h"

namespace urnic::provider {
namespace {

// What the program has a pointer to.
struct Handler : urnic_dv_handler {
  std::unique_ptr<control::RudHandler> control;
};
static_assert(URNIC_DV_MAX_HANDLERS == control::RudHandler::kMaxPerWindow);
static_assert(URNIC_DV_WAKE_NEVER == WakeRules::kNever);

control::RudHandler* Of(urnic_dv_handler* handler) {
  return static_cast<Handler*>(handler)->control.get();
}

}  // namespace

urnic_dv_handler* CreateHandler(ibv_context* ibv,
                                const urnic_dv_handler_attr* attr) {
  if (attr->comp_mask != 0)
    return FailNull(RefuseMask(ibv, "create_handler", attr->comp_mask));
  auto made = control::RudHandler::Make();
  if (!made.ok()) return FailNull(ibv, made.status());
  auto handler = std::make_unique<Handler>();
  handler->control = *std::move(made);
  handler->context = ibv;
  handler->fd = handler->control->fd();
  return handler.release();
}

int DestroyHandler(ibv_context* ibv, urnic_dv_handler* handler) {
  if (absl::Status s = control::RudHandler::End(Of(handler)); !s.ok())
    return Fail(ibv, s);
  delete static_cast<Handler*>(handler);
  return 0;
}

int ArmHandler(ibv_context* ibv, urnic_dv_handler* handler) {
  return Fail(ibv, control::RudHandler::BecomeReady(Of(handler)));
}

int DisarmHandler(ibv_context* ibv, urnic_dv_handler* handler) {
  return Fail(ibv, control::RudHandler::BecomeBusy(Of(handler)));
}

int BindHandlers(ibv_qp* qp, const urnic_dv_wake_attr* attr) {
  ibv_context* const ibv = qp->context;
  control::Qp* const window = WindowOf(qp, "bind_handlers");
  if (window == nullptr) return EINVAL;
  if (attr->comp_mask != 0)
    return RefuseMask(ibv, "bind_handlers", attr->comp_mask);
  if ((attr->flags & ~uint32_t{URNIC_DV_WAKE_EARLY}) != 0) {
    return Fail(ibv, Refusal(ErrorCode::kBadAttribute,
                             absl::StrCat("bind_handlers: flags 0x",
                                          absl::Hex(attr->flags))));
  }
  WakeRules rules;
  if (attr->entries == URNIC_DV_WAKE_NEVER) {
    rules.entries = WakeRules::kNever;
  } else {
    rules.entries = std::clamp(attr->entries, uint32_t{1},
                               window->rud()->view().receive_entries);
  }
  rules.delay = Duration::Microseconds(attr->delay_us);
  rules.early = (attr->flags & URNIC_DV_WAKE_EARLY) != 0;
  std::vector<control::RudHandler*> handlers;
  for (urnic_dv_handler* const handler :
       std::span(attr->handlers,
                 std::min<uint32_t>(attr->count, URNIC_DV_MAX_HANDLERS + 1)))
    handlers.push_back(Of(handler));
  return Fail(ibv, control::RudHandler::Bind(*window, rules, handlers));
}

}  // namespace urnic::provider
