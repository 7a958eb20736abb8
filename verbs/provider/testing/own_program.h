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

// Runs the disabled test `name` of this program, which must end with
// kPartIsDone. `prepare` runs first in the new process.
inline void RunInOwnProgram(
    const std::string& name, const std::function<void()>& prepare = [] {}) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    prepare();
    execl("/proc/self/exe", "own_program", "--gtest_also_run_disabled_tests",
          ("--gtest_filter=" + name).c_str(), nullptr);
    _exit(99);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), kPartIsDone);
}

}  // namespace urnic
