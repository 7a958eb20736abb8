#define _GNU_SOURCE
// sigaction and its older relatives. They pass through, except for SIGSEGV and
// SIGBUS once the provider has asked to keep these (signal_hooks.h).

#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include "verbs/preload/export.h"
#include "verbs/preload/real_libc.h"
#include "verbs/preload/signal_hooks.h"

URNIC_EXPORT int sigaction(int signo, const struct sigaction* action,
                           struct sigaction* old) {
  if (urnic_signal_hooks_hold(signo)) {
    urnic_signal_hooks_action(signo, action, old);
    return 0;
  }
  int rc = urnic_real()->sigaction(signo, action, old);
  if (rc == 0) urnic_signal_hooks_mask_old(signo, old);
  return rc;
}

URNIC_EXPORT int __sigaction(int signo, const struct sigaction* action,
                             struct sigaction* old) {
  return sigaction(signo, action, old);
}

static urnic_plain_handler replace(int signo, urnic_plain_handler handler,
                                   int flags) {
  if (handler == SIG_ERR) {
    errno = EINVAL;
    return SIG_ERR;
  }
  struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
  struct sigaction old;
  sigemptyset(&action.sa_mask);
  urnic_signal_hooks_action(signo, &action, &old);
  return old.sa_handler;
}

URNIC_EXPORT urnic_plain_handler signal(int signo,
                                        urnic_plain_handler handler) {
  if (!urnic_signal_hooks_hold(signo))
    return urnic_real()->signal(signo, handler);
  return replace(signo, handler, SA_RESTART);
}

URNIC_EXPORT urnic_plain_handler bsd_signal(int signo,
                                            urnic_plain_handler handler) {
  return signal(signo, handler);
}

URNIC_EXPORT urnic_plain_handler ssignal(int signo,
                                         urnic_plain_handler handler) {
  return signal(signo, handler);
}

URNIC_EXPORT urnic_plain_handler sysv_signal(int signo,
                                             urnic_plain_handler handler) {
  if (!urnic_signal_hooks_hold(signo))
    return urnic_real()->sysv_signal(signo, handler);
  return replace(signo, handler, (int)SA_RESETHAND | SA_NODEFER);
}

URNIC_EXPORT urnic_plain_handler __sysv_signal(int signo,
                                               urnic_plain_handler handler) {
  return sysv_signal(signo, handler);
}

URNIC_EXPORT urnic_plain_handler sigset(int signo,
                                        urnic_plain_handler handler) {
  if (!urnic_signal_hooks_hold(signo))
    return urnic_real()->sigset(signo, handler);
  sigset_t self, before;
  sigemptyset(&self);
  sigaddset(&self, signo);
  struct sigaction old;
  urnic_signal_hooks_action(signo, NULL, &old);
  if (handler == SIG_HOLD) {
    pthread_sigmask(SIG_BLOCK, &self, &before);
  } else {
    if (replace(signo, handler, 0) == SIG_ERR) return SIG_ERR;
    pthread_sigmask(SIG_UNBLOCK, &self, &before);
  }
  return sigismember(&before, signo) ? SIG_HOLD : old.sa_handler;
}

URNIC_EXPORT int sigignore(int signo) {
  if (!urnic_signal_hooks_hold(signo)) return urnic_real()->sigignore(signo);
  replace(signo, SIG_IGN, 0);
  return 0;
}
