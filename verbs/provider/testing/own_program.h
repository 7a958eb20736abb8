#pragma once

// Runs a part of a test in a process of its own with freshly loaded libraries:
// a disabled test, run by exec.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace urnic {

// The exit status of such a part when it has succeeded.
inline constexpr int kPartIsDone = 42;

// Runs the disabled test `name` of this program, and returns its exit status;
// minus the signal that ended it; or -1000: it could not be run. `prepare` runs
// first in the new process.
inline int StatusOfOwnProgram(const std::string& name,
                              const std::function<void()>& prepare) {
  const pid_t child = fork();
  if (child < 0) return -1000;
  if (child == 0) {
    prepare();
    execl("/proc/self/exe", "own_program", "--gtest_also_run_disabled_tests",
          ("--gtest_filter=" + name).c_str(), nullptr);
    _exit(99);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// The same for one that must end with kPartIsDone.
inline void RunInOwnProgram(
    const std::string& name, const std::function<void()>& prepare = [] {}) {
  EXPECT_EQ(StatusOfOwnProgram(name, prepare), kPartIsDone) << name;
}

}  // namespace urnic
