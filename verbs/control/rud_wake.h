#pragma once

// Handlers, which RUD windows wake when they have something for a sleeping
// program (urnic_dv.h, "Sleeping"). A handler may be bound to windows of
// several devices, and a window to several handlers. transport/rud/wake.h has
// the protocol between them.
//
// Threads: any. One lock per process protects the lists of windows and
// handlers. So a handler can become ready without the tokens of its engines.
// Engines do not take this lock.

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

  // All functions return INVALID_ARGUMENT for a handler that no longer exists.

  // Ends the handler, so that the caller may destroy it. FAILED_PRECONDITION: a
  // window is bound to it.
  static absl::Status End(RudHandler* handler);
  // From now on windows may wake it, and the helper threads of their devices
  // run the engines.
  static absl::Status BecomeReady(RudHandler* handler);
  static absl::Status BecomeBusy(RudHandler* handler);

  // Binds the window to these handlers instead of those before; an empty list
  // unbinds it. INVALID_ARGUMENT: more than kMaxPerWindow, or one of them
  // twice. REQUIRES: qp.rud() != nullptr
  static absl::Status Bind(Qp& qp, const WakeRules& rules,
                           std::span<RudHandler* const> handlers);
  // Call this when a window ends. REQUIRES: not in a ControlScope.
  static void Unbind(Qp& qp);

 private:
  explicit RudHandler(std::shared_ptr<WakeHandler> wake)
      : wake_(std::move(wake)) {}

  struct Window {
    RudWakeups* wakeups;
    Engine* engine;
  };

  const std::shared_ptr<WakeHandler> wake_;
  std::vector<Window> windows_;  // protected by the lock
};

}  // namespace urnic::control
