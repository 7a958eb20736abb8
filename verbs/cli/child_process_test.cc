#include "verbs/cli/child_process.h"

#include <gtest/gtest.h>

#include <chrono>

namespace urnic {
namespace {

using Clock = ChildProcess::Clock;

TEST(ChildProcessTest, AProgramThatDoesNotEndIsNamedWithItsSeconds) {
  // As with `ip netns exec`, the program is not the first word.
  const auto child = ChildProcess::Start({"env", "sleep", "600"}, "the client");
  ASSERT_TRUE(child.ok()) << child.status();
  const absl::Status status =
      (*child)->Wait(Clock::now() + std::chrono::seconds(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(),
            "the client did not end in 1 s; the machine may be too busy");
}

TEST(ChildProcessTest, AProgramThatFailsIsNamedWithItsLastLines) {
  const auto child =
      ChildProcess::Start({"sh", "-c", "echo no room; exit 3"}, "the server");
  ASSERT_TRUE(child.ok()) << child.status();
  const absl::Status status =
      (*child)->Wait(Clock::now() + std::chrono::seconds(60));
  EXPECT_EQ(status.message(), "the server: exit status 3\nno room\n");
}

}  // namespace
}  // namespace urnic
