#include "verbs/control/rud_wake.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/rud_window.h"
#include "ras/errors/refusal.h"
#include "verbs/control/qp.h"

namespace urnic::control {
namespace {

// Never destroyed, because windows may outlive main().
struct Handlers {
  std::mutex mutex;
  std::unordered_set<RudHandler*> all;
};
Handlers& All() {
  static auto* const handlers = new Handlers;
  return *handlers;
}

absl::Status NotOne(const char* verb) {
  return Refusal(ErrorCode::kBadAttribute,
                 absl::StrCat(verb, ": there is no such handler"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RudHandler>> RudHandler::Make() {
  std::shared_ptr<WakeHandler> wake = WakeHandler::Make();
  if (wake == nullptr) {
    return Refusal(
        ErrorCode::kNoDescriptors,
        absl::StrCat("create_handler: no eventfd: ", strerror(errno)));
  }
  std::unique_ptr<RudHandler> handler(new RudHandler(std::move(wake)));
  const std::scoped_lock lock(All().mutex);
  All().all.insert(handler.get());
  return handler;
}

absl::Status RudHandler::End(RudHandler* handler) {
  const std::scoped_lock lock(All().mutex);
  if (!All().all.contains(handler)) return NotOne("destroy_handler");
  if (!handler->windows_.empty()) {
    return Refusal(ErrorCode::kInUse,
                   absl::StrCat("destroy_handler: ", handler->windows_.size(),
                                " windows are bound to it"));
  }
  All().all.erase(handler);
  return absl::OkStatus();
}

absl::Status RudHandler::BecomeReady(RudHandler* handler) {
  const std::scoped_lock lock(All().mutex);
  if (!All().all.contains(handler)) return NotOne("arm_handler");
  handler->wake_->BecomeReady();
  for (const Window& window : handler->windows_) {
    window.engine->HandOver();
    window.wakeups->Deliver();
  }
  return absl::OkStatus();
}

absl::Status RudHandler::BecomeBusy(RudHandler* handler) {
  const std::scoped_lock lock(All().mutex);
  if (!All().all.contains(handler)) return NotOne("disarm_handler");
  handler->wake_->BecomeBusy();
  return absl::OkStatus();
}

absl::Status RudHandler::Bind(Qp& qp, const WakeRules& rules,
                              std::span<RudHandler* const> handlers) {
  if (handlers.size() > kMaxPerWindow) {
    return Refusal(
        ErrorCode::kBadAttribute,
        absl::StrCat("bind_handlers: ", handlers.size(),
                     " handlers, but a window has at most ", kMaxPerWindow));
  }
  const std::scoped_lock lock(All().mutex);
  std::vector<std::shared_ptr<WakeHandler>> wakes;
  for (RudHandler* const handler : handlers) {
    if (!All().all.contains(handler)) return NotOne("bind_handlers");
    if (std::ranges::count(handlers, handler) != 1) {
      return Refusal(ErrorCode::kBadAttribute,
                     "bind_handlers: a handler is named twice");
    }
    wakes.push_back(handler->wake_);
  }
  Engine& engine = qp.device().engine();
  RudWakeups* wakeups = nullptr;
  {
    Engine::ControlScope scope(engine);
    RudWindow& window = RudWindow::Of(*qp.posting().engine_qp);
    wakeups = window.wakeups();
    if (wakeups == nullptr)
      wakeups = &window.MakeWakeups(qp.rud()->view().receive_indices);
    wakeups->Bind(rules, std::move(wakes), engine.Now());
  }
  // The window's timer may have changed.
  engine.Doorbell(*qp.posting().engine_qp);
  for (RudHandler* const handler : All().all) {
    std::erase_if(handler->windows_,
                  [&](const Window& w) { return w.wakeups == wakeups; });
  }
  for (RudHandler* const handler : handlers)
    handler->windows_.push_back({wakeups, &engine});
  return absl::OkStatus();
}

void RudHandler::Unbind(Qp& qp) {
  RudWindow& window = RudWindow::Of(*qp.posting().engine_qp);
  const std::scoped_lock lock(All().mutex);
  const RudWakeups* const wakeups = window.wakeups();
  if (wakeups == nullptr) return;
  for (RudHandler* const handler : All().all) {
    std::erase_if(handler->windows_,
                  [&](const Window& w) { return w.wakeups == wakeups; });
  }
}

}  // namespace urnic::control
