#pragma once

// A write past RLIMIT_FSIZE raises SIGXFSZ, which ends a program that does not
// expect it. When the RNIC writes to a file inside a program, the write must
// fail with EFBIG instead. Four system calls: not for the packet path.

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

struct urnic_file_size_signal {
  sigset_t mask;  // the thread's mask before
  int was_pending;
};

static inline int urnic_file_size_signal_pending(void) {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return sigismember(&pending, SIGXFSZ) == 1;
}

// Holds the signal back in this thread.
static inline void urnic_file_size_signal_off(
    struct urnic_file_size_signal* before) {
  sigset_t signal;
  sigemptyset(&signal);
  sigaddset(&signal, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &signal, &before->mask);
  before->was_pending = urnic_file_size_signal_pending();
}

// Removes a signal that arrived since then, and unblocks later ones. Keeps
// errno.
static inline void urnic_file_size_signal_back(
    const struct urnic_file_size_signal* before) {
  if (!before->was_pending && urnic_file_size_signal_pending()) {
    sigset_t signal;
    sigemptyset(&signal);
    sigaddset(&signal, SIGXFSZ);
    const struct timespec now = {0, 0};
    // Not sigtimedwait(), which would be a cancellation point. The signal is
    // pending, so this does not fail.
    syscall(SYS_rt_sigtimedwait, &signal, NULL, &now, _NSIG / 8);
  }
  pthread_sigmask(SIG_SETMASK, &before->mask, NULL);
}

#ifdef __cplusplus
}  // extern "C"
#endif
