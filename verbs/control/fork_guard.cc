#include "verbs/control/fork_guard.h"

#include <pthread.h>

#include "ras/presence/presence.h"

namespace urnic::control {

std::atomic<bool> internal::in_forked_child{false};

void InstallForkGuard() {
  static const int installed = pthread_atfork(nullptr, nullptr, [] {
    internal::in_forked_child.store(true, std::memory_order_relaxed);
    CloseAllPlaces();
  });
  static_cast<void>(installed);
}

}  // namespace urnic::control
