#pragma once

// How an endpoint sleeps: one handler that all its windows wake, on whatever
// devices they are. Thread: that of the endpoint.

#include <memory>
#include <span>

#include "transport/base/time.h"
#include "verbs/direct/provider_table.h"
#include "verbs/rud/window_adapter.h"

namespace urnic::rud {

class Sleeper {
 public:
  // Null: errno. REQUIRES: !adapters.empty()
  static std::unique_ptr<Sleeper> Make(
      std::span<const std::unique_ptr<WindowAdapter>> adapters);
  // The adapters have ended.
  ~Sleeper();
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  // Look at the FIFOs between the two.
  void BecomeReady();
  // Until a window has something, or for so long; negative: forever. 0:
  // something. ETIMEDOUT, EINTR.
  int Sleep(Duration timeout);
  // It does not sleep, so nobody needs to wake it.
  void BecomeBusy();

 private:
  explicit Sleeper(urnic_dv_handler* handler) : handler_(handler) {}

  urnic_dv_handler* const handler_;
};

}  // namespace urnic::rud
