#pragma once

// SIGSEGV and SIGBUS, shared between the provider's guard and the program.
// preload_api.h says what set and chain promise.
//
// Out of reach: programs that install their handler by a raw system call (the
// Go runtime does). Then the guard is gone and a fault in registered memory
// reaches the program.

#include <signal.h>

#include "verbs/preload/preload_api.h"

int urnic_signal_hooks_set(urnic_signal_handler handler);
void urnic_signal_hooks_chain(int signo, siginfo_t* info, void* ucontext);

// True while `signo` is held by the hooks in this process: then the program's
// requests go to the function below instead of the kernel.
int urnic_signal_hooks_hold(int signo);

// sigaction(2) for a held signal: remembers and answers, never installs.
void urnic_signal_hooks_action(int signo, const struct sigaction* action,
                               struct sigaction* old);

// After a real sigaction reported `old`: if that is the guard (a forked child
// sees it), puts what the program had asked for instead.
void urnic_signal_hooks_mask_old(int signo, struct sigaction* old);

// This thread has changed its signal mask.
void urnic_signal_hooks_mask_changed(void);
// How often it has (preload_api.h).
const unsigned* urnic_signal_hooks_mask_changes(void);
