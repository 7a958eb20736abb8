#pragma once

// Shares SIGSEGV and SIGBUS between the provider's guard and the program.
// preload_api.h specifies set and chain.
//
// Limitation: a program may install its handler by a raw system call (the Go
// runtime does). Then the guard is gone, and a fault in registered memory
// reaches the program.

#include <signal.h>

#include "verbs/preload/preload_api.h"

int urnic_signal_hooks_set(urnic_signal_handler handler);
void urnic_signal_hooks_chain(int signo, siginfo_t* info, void* ucontext);

// True while the hooks hold `signo` in this process. Then the program's
// requests go to the function below instead of the kernel.
int urnic_signal_hooks_hold(int signo);

// sigaction(2) for a held signal: stores and returns settings, never installs
// them.
void urnic_signal_hooks_action(int signo, const struct sigaction* action,
                               struct sigaction* old);

// For the `old` of a real sigaction: if that is the guard (as in a forked
// child), replaces it with the program's own setting.
void urnic_signal_hooks_mask_old(int signo, struct sigaction* old);

// Notes that this thread has changed its signal mask.
void urnic_signal_hooks_mask_changed(void);
// How often it has done so (preload_api.h).
const unsigned* urnic_signal_hooks_mask_changes(void);
