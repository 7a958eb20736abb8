// Each test sets the hooks in its own process, because they can be set only
// once.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csetjmp>
#include <cstdlib>
#include <thread>

#include "verbs/preload/testing/preloaded.h"

namespace urnic {
namespace {

volatile sig_atomic_t g_guard_calls = 0;
volatile sig_atomic_t g_program_calls = 0;
sigjmp_buf g_jump;

void Guard(int signo, siginfo_t* info, void* ucontext) {
  g_guard_calls = g_guard_calls + 1;
  PreloadApi().chain_signal(signo, info, ucontext);
}

void ProgramHandler(int) { g_program_calls = g_program_calls + 1; }
void ProgramSiginfo(int, siginfo_t* info, void*) {
  g_program_calls = g_program_calls + 1;
  if (info->si_code > 0) siglongjmp(g_jump, 1);
}

void Touch(volatile char* p) { *p = 1; }
char* Forbidden() {
  static char* page = static_cast<char*>(
      mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  return page;
}

#define CHECK_OR_EXIT(condition)                            \
  if (!(condition)) {                                       \
    fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
    _exit(1);                                               \
  }

TEST(SignalHooksTest, PassThroughUntilSet) {
  auto run = [] {
    CHECK_OR_EXIT(signal(SIGSEGV, ProgramHandler) == SIG_DFL);
    raise(SIGSEGV);
    CHECK_OR_EXIT(g_program_calls == 1 && g_guard_calls == 0);
    _exit(0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST(SignalHooksTest, AnEarlierHandlerOfTheProgramIsCalled) {
  auto run = [] {
    signal(SIGBUS, ProgramHandler);
    CHECK_OR_EXIT(PreloadApi().set_signal_hooks(Guard) == 0);
    CHECK_OR_EXIT(PreloadApi().set_signal_hooks(Guard) == -EBUSY);
    raise(SIGBUS);
    CHECK_OR_EXIT(g_guard_calls == 1 && g_program_calls == 1);
    _exit(0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST(SignalHooksTest, LaterHandlersAreStoredButNotInstalled) {
  auto run = [] {
    CHECK_OR_EXIT(PreloadApi().set_signal_hooks(Guard) == 0);
    struct sigaction action = {}, old = {};
    action.sa_sigaction = ProgramSiginfo;
    action.sa_flags = SA_SIGINFO;
    CHECK_OR_EXIT(sigaction(SIGSEGV, &action, &old) == 0);
    CHECK_OR_EXIT(old.sa_handler == SIG_DFL);
    CHECK_OR_EXIT(sigaction(SIGSEGV, nullptr, &old) == 0);
    CHECK_OR_EXIT(old.sa_sigaction == ProgramSiginfo);
    if (sigsetjmp(g_jump, 1) == 0) Touch(Forbidden());
    CHECK_OR_EXIT(g_guard_calls == 1 && g_program_calls == 1);
    // The jump has restored the mask, so it works again.
    if (sigsetjmp(g_jump, 1) == 0) Touch(Forbidden());
    CHECK_OR_EXIT(g_guard_calls == 2 && g_program_calls == 2);
    CHECK_OR_EXIT(reinterpret_cast<void*>(signal(SIGSEGV, SIG_IGN)) ==
                  reinterpret_cast<void*>(ProgramSiginfo));
    raise(SIGSEGV);  // sent, so it can be ignored
    CHECK_OR_EXIT(g_guard_calls == 3 && g_program_calls == 2);
    _exit(0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST(SignalHooksTest, HonoursResetHandAndMask) {
  auto run = [] {
    CHECK_OR_EXIT(PreloadApi().set_signal_hooks(Guard) == 0);
    struct sigaction action = {}, old = {};
    action.sa_handler = [](int) {
      sigset_t mask;
      sigprocmask(SIG_BLOCK, nullptr, &mask);
      CHECK_OR_EXIT(sigismember(&mask, SIGUSR1));
      CHECK_OR_EXIT(!sigismember(&mask, SIGBUS));
      g_program_calls = g_program_calls + 1;
    };
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_NODEFER;
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGBUS, &action, nullptr);
    raise(SIGBUS);
    CHECK_OR_EXIT(g_program_calls == 1);
    sigset_t mask;
    sigprocmask(SIG_BLOCK, nullptr, &mask);
    CHECK_OR_EXIT(!sigismember(&mask, SIGUSR1));
    sigaction(SIGBUS, nullptr, &old);
    CHECK_OR_EXIT(old.sa_handler == SIG_DFL);
    _exit(0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

// Deprecated, but programs use it.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
TEST(SignalHooksTest, SigsetHoldsAndReleases) {
  auto run = [] {
    signal(SIGBUS, SIG_DFL);  // sanitizers install a handler
    CHECK_OR_EXIT(PreloadApi().set_signal_hooks(Guard) == 0);
    CHECK_OR_EXIT(sigset(SIGBUS, ProgramHandler) == SIG_DFL);
    CHECK_OR_EXIT(sigset(SIGBUS, SIG_HOLD) == ProgramHandler);
    raise(SIGBUS);
    CHECK_OR_EXIT(g_program_calls == 0);
    CHECK_OR_EXIT(sigset(SIGBUS, ProgramHandler) == SIG_HOLD);
    CHECK_OR_EXIT(g_program_calls == 1);
    _exit(0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

void DieOfAFault() {
  PreloadApi().set_signal_hooks(Guard);
  Touch(Forbidden());
}
void DieOfASentSignal() {
  signal(SIGBUS, SIG_DFL);
  PreloadApi().set_signal_hooks(Guard);
  raise(SIGBUS);
}
void DieAlthoughIgnored() {
  PreloadApi().set_signal_hooks(Guard);
  signal(SIGSEGV, SIG_IGN);
  Touch(Forbidden());
}

TEST(SignalHooksTest, ByDefaultTheProgramDiesAsWithoutHooks) {
  EXPECT_EXIT(DieOfAFault(), testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(DieOfASentSignal(), testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(DieAlthoughIgnored(), testing::KilledBySignal(SIGSEGV), "");
}

TEST(SignalHooksTest, OtherSignalsPassThrough) {
  auto run = [] {
    CHECK_OR_EXIT(PreloadApi().set_signal_hooks(Guard) == 0);
    CHECK_OR_EXIT(signal(SIGUSR1, ProgramHandler) == SIG_DFL);
    raise(SIGUSR1);
    CHECK_OR_EXIT(g_guard_calls == 0 && g_program_calls == 1);
    _exit(0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

// The child must not wait for a lock whose holder does not exist there.
TEST(SignalHooksTest, AChildOfForkDoesNotWaitForThreadsOfItsParent) {
  auto run = [] {
    CHECK_OR_EXIT(PreloadApi().set_signal_hooks(Guard) == 0);
    std::thread([] {
      for (;;) signal(SIGSEGV, SIG_DFL);
    }).detach();
    for (int i = 0; i < 300; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        struct sigaction old = {};
        _exit(sigaction(SIGSEGV, nullptr, &old) == 0 &&
                      old.sa_handler == SIG_DFL
                  ? 0
                  : 1);
      }
      int status = -1;
      CHECK_OR_EXIT(waitpid(child, &status, 0) == child && status == 0);
    }
    _exit(0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace urnic
