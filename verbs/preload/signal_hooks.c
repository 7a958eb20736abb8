#define _GNU_SOURCE
#include "verbs/preload/signal_hooks.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "verbs/preload/fork_safety.h"

static _Atomic(urnic_signal_handler) guard;  // set once in each process
static pid_t owner;  // a vfork child must not change what it shares

// The program's settings: [0] SIGSEGV, [1] SIGBUS. The lock is held only for a
// copy, with all signals blocked, so neither a handler nor a fault can
// interrupt the thread that holds it.
static struct sigaction asked[2];
static atomic_flag lock_bit = ATOMIC_FLAG_INIT;

static int index_of(int signo) {
  return signo == SIGSEGV ? 0 : signo == SIGBUS ? 1 : -1;
}

static void lock(sigset_t* outer) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, outer);
  while (atomic_flag_test_and_set_explicit(&lock_bit, memory_order_acquire)) {
  }
}

static void unlock(const sigset_t* outer) {
  atomic_flag_clear_explicit(&lock_bit, memory_order_release);
  pthread_sigmask(SIG_SETMASK, outer, NULL);
}

// The thread that held the lock may not exist in the child.
static void unlock_in_child(void) {
  atomic_flag_clear_explicit(&lock_bit, memory_order_release);
}

int urnic_signal_hooks_set(urnic_signal_handler handler) {
  urnic_signal_handler earlier = atomic_load(&guard);
  if (earlier != NULL && owner == getpid()) return -EBUSY;
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART,
                             .sa_sigaction = handler};
  sigemptyset(&action.sa_mask);
  // chain needs these before the first signal can arrive.
  struct sigaction there[2];
  if (sigaction(SIGSEGV, NULL, &there[0]) != 0 ||
      sigaction(SIGBUS, NULL, &there[1]) != 0)
    return -errno;
  // A forked child finds its parent's handler installed, and has the program's
  // settings in `asked`.
  for (int i = 0; i < 2; ++i)
    if (earlier == NULL || there[i].sa_sigaction != earlier)
      asked[i] = there[i];
  owner = getpid();
  urnic_fork_safety_on(unlock_in_child);
  if (sigaction(SIGSEGV, &action, NULL) != 0) return -errno;
  if (sigaction(SIGBUS, &action, NULL) != 0) {
    int err = errno;
    sigaction(SIGSEGV, &there[0], NULL);
    return -err;
  }
  atomic_store(&guard, handler);
  return 0;
}

int urnic_signal_hooks_hold(int signo) {
  return index_of(signo) >= 0 && atomic_load(&guard) != NULL &&
         owner == getpid();
}

void urnic_signal_hooks_action(int signo, const struct sigaction* action,
                               struct sigaction* old) {
  struct sigaction* kept = &asked[index_of(signo)];
  // The program's pointers are used outside the lock, because they may fault.
  struct sigaction wanted = {0}, before;
  if (action != NULL) wanted = *action;
  sigset_t outer;
  lock(&outer);
  before = *kept;
  if (action != NULL) *kept = wanted;
  unlock(&outer);
  if (old != NULL) *old = before;
}

void urnic_signal_hooks_mask_old(int signo, struct sigaction* old) {
  urnic_signal_handler ours = atomic_load(&guard);
  int i = index_of(signo);
  if (old == NULL || i < 0 || ours == NULL || old->sa_sigaction != ours) return;
  struct sigaction before;
  sigset_t outer;
  lock(&outer);
  before = asked[i];
  unlock(&outer);
  *old = before;
}

// The default action ends the program. A fault recurs as soon as the handler
// returns. A signal that was sent, or that a memory scrubber caused, must be
// sent again; it stays blocked until the handler returns.
static void die_by_default(int signo, const siginfo_t* info) {
  struct sigaction action = {.sa_handler = SIG_DFL};
  sigemptyset(&action.sa_mask);
  sigaction(signo, &action, NULL);
  if (info->si_code <= 0 || (signo == SIGBUS && info->si_code == BUS_MCEERR_AO))
    raise(signo);
}

void urnic_signal_hooks_chain(int signo, siginfo_t* info, void* ucontext) {
  struct sigaction* kept = &asked[index_of(signo)];
  struct sigaction action;
  sigset_t outer;
  lock(&outer);
  action = *kept;
  if ((action.sa_flags & SA_RESETHAND) != 0) kept->sa_handler = SIG_DFL;
  unlock(&outer);

  if (action.sa_handler == SIG_IGN && info->si_code <= 0) return;
  // A fault cannot be ignored: the kernel takes the default action then.
  if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) {
    die_by_default(signo, info);
    return;
  }
  // The mask that the kernel would have set. The return from the signal
  // restores the old one, as always.
  pthread_sigmask(SIG_BLOCK, &action.sa_mask, NULL);
  if ((action.sa_flags & SA_NODEFER) != 0 &&
      !sigismember(&action.sa_mask, signo)) {
    sigset_t self;
    sigemptyset(&self);
    sigaddset(&self, signo);
    pthread_sigmask(SIG_UNBLOCK, &self, NULL);
  }
  if ((action.sa_flags & SA_SIGINFO) != 0)
    action.sa_sigaction(signo, info, ucontext);
  else
    action.sa_handler(signo);
}

// Changed and read only by its own thread and that thread's signal handlers.
static _Thread_local unsigned mask_changes
    __attribute__((tls_model("initial-exec")));

void urnic_signal_hooks_mask_changed(void) { ++mask_changes; }

const unsigned* urnic_signal_hooks_mask_changes(void) { return &mask_changes; }
