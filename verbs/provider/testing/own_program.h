#pragma once

// A part of a test that needs a process of its own, with libraries that have
// not seen another's: a disabled test, run by exec.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace urnic {

// What such a part ends with, by _exit() or exit(), when all was well.
inline constexpr int kPartIsDone = 42;

// Runs the disabled test `name` of this program, which must end with
// kPartIsDone. `prepare` runs in the new process before.
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
