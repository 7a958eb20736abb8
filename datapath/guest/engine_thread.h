#pragma once

#include <signal.h>

#include <functional>
#include <optional>
#include <thread>

namespace urnic {

// While this object exists, the calling thread starts threads with blocked
// signals: the program's handlers are written for the program's own threads.
// The signals that the memory guard needs are not blocked (guarded_memory.h).
class SignalsHeldBack {
 public:
  SignalsHeldBack();
  ~SignalsHeldBack();
  SignalsHeldBack(const SignalsHeldBack&) = delete;
  SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;

 private:
  sigset_t before_;
};

// Starts a thread of ours that may run the engine, with SignalsHeldBack.
// `name`: as ps shows it, at most 15 characters. None: the process, or its
// user, cannot have more threads.
[[nodiscard]] std::optional<std::thread> StartEngineThread(
    const char* name, std::function<void()> run);

// Asks the kernel to run the calling thread soon after it is woken, also on a
// CPU on which another thread spins: a short time slice, which the scheduler of
// Linux 6.12 lets preempt longer ones, and timers without slack. Needs no
// privilege. Has no effect if the kernel refuses.
void MakePrompt();

}  // namespace urnic
