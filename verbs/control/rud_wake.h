#pragma once

// Handlers of a program that windows of RUD wake (urnic_dv.h, "Sleeping").
// A handler may be bound to windows of several devices, and a window to several
// handlers. How they meet: transport/rud/wake.h.
//
// Threads: any. A lock of the process keeps the lists of windows and handlers,
// so a handler becomes ready without the tokens of its engines; engines do not
// take it.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datapath/engine/rud_wakeups.h"
#include "datapath/engine/wake_handler.h"

namespace urnic {
class Engine;
}

namespace urnic::control {

class Qp;

class RudHandler {
 public:
  static constexpr uint32_t kMaxPerWindow = 16;

  // RESOURCE_EXHAUSTED: no more descriptors.
  static absl::StatusOr<std::unique_ptr<RudHandler>> Make();
  RudHandler(const RudHandler&) = delete;
  RudHandler& operator=(const RudHandler&) = delete;

  int fd() const { return wake_->fd(); }

  // In all functions a handler that does not exist any more: INVALID_ARGUMENT.

  // It ends, and the caller may destroy it. FAILED_PRECONDITION: a window is
  // bound to it.
  static absl::Status End(RudHandler* handler);
  // From now on it may be told, and the helper threads of its devices run their
  // engines.
  static absl::Status BecomeReady(RudHandler* handler);
  static absl::Status BecomeBusy(RudHandler* handler);

  // Takes the place of what the window was bound to; no handlers: nobody.
  // INVALID_ARGUMENT: more than kMaxPerWindow, or one of them twice.
  // REQUIRES: qp.rud() != nullptr
  static absl::Status Bind(Qp& qp, const WakeRules& rules,
                           std::span<RudHandler* const> handlers);
  // The window ends. REQUIRES: outside of a ControlScope.
  static void Unbind(Qp& qp);

 private:
  explicit RudHandler(std::shared_ptr<WakeHandler> wake)
      : wake_(std::move(wake)) {}

  struct Window {
    RudWakeups* wakeups;
    Engine* engine;
  };

  const std::shared_ptr<WakeHandler> wake_;
  std::vector<Window> windows_;  // under the lock
};

}  // namespace urnic::control
