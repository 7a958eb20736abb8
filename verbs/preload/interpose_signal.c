#define _GNU_SOURCE
// sigaction and its older relatives. They pass through, except for SIGSEGV and
// SIGBUS once the provider has asked to keep these (signal_hooks.h). And the
// functions that change the signal mask: they always pass through, and are
// counted for the provider.

#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include "verbs/preload/export.h"
#include "verbs/preload/next_call.h"
#include "verbs/preload/signal_hooks.h"

static int sigaction_any(int signo, const struct sigaction* action,
                         struct sigaction* old) {
  if (urnic_signal_hooks_hold(signo)) {
    urnic_signal_hooks_action(signo, action, old);
    return 0;
  }
  int rc = urnic_next()->sigaction(signo, action, old);
  if (rc == 0) urnic_signal_hooks_mask_old(signo, old);
  return rc;
}

URNIC_EXPORT int sigaction(int signo, const struct sigaction* action,
                           struct sigaction* old) {
  return sigaction_any(signo, action, old);
}
URNIC_EXPORT int __sigaction(int signo, const struct sigaction* action,
                             struct sigaction* old) {
  return sigaction_any(signo, action, old);
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

static urnic_plain_handler signal_any(int signo, urnic_plain_handler handler) {
  if (!urnic_signal_hooks_hold(signo))
    return urnic_next()->signal(signo, handler);
  return replace(signo, handler, SA_RESTART);
}

URNIC_EXPORT urnic_plain_handler signal(int signo,
                                        urnic_plain_handler handler) {
  return signal_any(signo, handler);
}
URNIC_EXPORT urnic_plain_handler bsd_signal(int signo,
                                            urnic_plain_handler handler) {
  return signal_any(signo, handler);
}
URNIC_EXPORT urnic_plain_handler ssignal(int signo,
                                         urnic_plain_handler handler) {
  return signal_any(signo, handler);
}

static urnic_plain_handler sysv_signal_any(int signo,
                                           urnic_plain_handler handler) {
  if (!urnic_signal_hooks_hold(signo))
    return urnic_next()->sysv_signal(signo, handler);
  return replace(signo, handler, (int)SA_RESETHAND | SA_NODEFER);
}

URNIC_EXPORT urnic_plain_handler sysv_signal(int signo,
                                             urnic_plain_handler handler) {
  return sysv_signal_any(signo, handler);
}
URNIC_EXPORT urnic_plain_handler __sysv_signal(int signo,
                                               urnic_plain_handler handler) {
  return sysv_signal_any(signo, handler);
}

// The next pthread_sigmask(), counted for the provider.
static int set_mask(int how, const sigset_t* set, sigset_t* old) {
  int error = urnic_next()->pthread_sigmask(how, set, old);
  if (set != NULL) urnic_signal_hooks_mask_changed();
  return error;
}

URNIC_EXPORT urnic_plain_handler sigset(int signo,
                                        urnic_plain_handler handler) {
  if (!urnic_signal_hooks_hold(signo))
    return urnic_next()->sigset(signo, handler);
  sigset_t self, before;
  sigemptyset(&self);
  sigaddset(&self, signo);
  struct sigaction old;
  urnic_signal_hooks_action(signo, NULL, &old);
  if (handler == SIG_HOLD) {
    set_mask(SIG_BLOCK, &self, &before);
  } else {
    if (replace(signo, handler, 0) == SIG_ERR) return SIG_ERR;
    set_mask(SIG_UNBLOCK, &self, &before);
  }
  return sigismember(&before, signo) ? SIG_HOLD : old.sa_handler;
}

URNIC_EXPORT int sigignore(int signo) {
  if (!urnic_signal_hooks_hold(signo)) return urnic_next()->sigignore(signo);
  replace(signo, SIG_IGN, 0);
  return 0;
}

// ------------------------------------------------------------ signal masks

URNIC_EXPORT int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) {
  return set_mask(how, set, old);
}

URNIC_EXPORT int sigprocmask(int how, const sigset_t* set, sigset_t* old) {
  int rc = urnic_next()->sigprocmask(how, set, old);
  if (set != NULL) urnic_signal_hooks_mask_changed();
  return rc;
}

URNIC_EXPORT int sigblock(int mask) {
  int before = urnic_next()->sigblock(mask);
  urnic_signal_hooks_mask_changed();
  return before;
}

URNIC_EXPORT int sigsetmask(int mask) {
  int before = urnic_next()->sigsetmask(mask);
  urnic_signal_hooks_mask_changed();
  return before;
}

URNIC_EXPORT int sighold(int signo) {
  int rc = urnic_next()->sighold(signo);
  urnic_signal_hooks_mask_changed();
  return rc;
}

URNIC_EXPORT int sigrelse(int signo) {
  int rc = urnic_next()->sigrelse(signo);
  urnic_signal_hooks_mask_changed();
  return rc;
}
