#include "datapath/guest/engine_thread.h"

#include <pthread.h>

#include <system_error>
#include <utility>

namespace urnic {

SignalsHeldBack::SignalsHeldBack() {
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGSEGV);
  sigdelset(&all, SIGBUS);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsHeldBack::~SignalsHeldBack() {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<std::thread> StartEngineThread(const char* name,
                                             std::function<void()> run) {
  const SignalsHeldBack held_back;
  try {
    std::thread thread(std::move(run));
    pthread_setname_np(thread.native_handle(), name);
    return thread;
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

}  // namespace urnic
