#include "datapath/guest/engine_thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
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

namespace {

// The least that Linux grants: 0.1 ms.
constexpr uint64_t kSliceNs = 100000;

// struct sched_attr of Linux, in its first version. The headers of glibc have
// it from 2.41 on.
struct SchedAttributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime_ns;
  uint64_t deadline_ns;
  uint64_t period_ns;
};
static_assert(sizeof(SchedAttributes) == 48);

}  // namespace

void MakePrompt() {
  prctl(PR_SET_TIMERSLACK, 1);
  SchedAttributes attributes = {};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0)
    return;
  // The program's choice of another class stays.
  if (attributes.policy != SCHED_OTHER) return;
  attributes.size = sizeof(attributes);
  attributes.runtime_ns = kSliceNs;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
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
