#pragma once

#include <signal.h>

#include <functional>
#include <optional>
#include <thread>

namespace urnic {

// A thread that starts while this lives takes none of the program's signals:
// their handlers are written for the program's own threads. Not held back are
// those that the guard around the program's memory needs (guarded_memory.h).
class SignalsHeldBack {
 public:
  SignalsHeldBack();
  ~SignalsHeldBack();
  SignalsHeldBack(const SignalsHeldBack&) = delete;
  SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;

 private:
  sigset_t before_;
};

// A thread of ours that may run the engine; SignalsHeldBack for it. `name`: as
// ps shows it, at most 15 characters. Nothing: the process, or its user, gets
// no more threads.
[[nodiscard]] std::optional<std::thread> StartEngineThread(
    const char* name, std::function<void()> run);

}  // namespace urnic
