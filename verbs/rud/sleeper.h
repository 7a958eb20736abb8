#pragma once

// Lets an endpoint sleep: all its windows, on all devices, wake the same
// handler. Thread: the endpoint's.

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
  // REQUIRES: the adapters have ended.
  ~Sleeper();
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  // From now on windows may wake it. Look at the FIFOs between this and
  // Sleep().
  void BecomeReady();
  // Sleeps until a window has woken it, or for this time; negative: forever. 0:
  // it was woken. ETIMEDOUT, EINTR.
  int Sleep(Duration timeout);
  // From now on no window wakes it.
  void BecomeBusy();

 private:
  explicit Sleeper(urnic_dv_handler* handler) : handler_(handler) {}

  urnic_dv_handler* const handler_;
};

}  // namespace urnic::rud
