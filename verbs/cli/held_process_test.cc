#include "verbs/cli/held_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "verbs/preload/run_dir.h"

namespace urnic {
namespace {

constexpr uid_t kNobody = 65534;

std::string MakeRunDirectory() {
  char path[256];
  EXPECT_EQ(urnic_run_dir_make(path, sizeof(path)), 0);
  return path;
}

// The directory with another pid or start time in its name.
std::string WithPid(const std::string& directory, pid_t pid) {
  const size_t last = directory.rfind('-');
  const size_t first = directory.rfind('-', last - 1);
  return directory.substr(0, first + 1) + std::to_string(pid) +
         directory.substr(last);
}
std::string WithStartTime(const std::string& directory, const char* time) {
  return directory.substr(0, directory.rfind('-') + 1) + time;
}

// A process with a run directory, which waits for a signal.
class Child {
 public:
  Child() {
    int pipe_fds[2];
    EXPECT_EQ(pipe(pipe_fds), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const std::string path = MakeRunDirectory();
      (void)!write(pipe_fds[1], path.data(), path.size());
      while (true) pause();
    }
    close(pipe_fds[1]);
    char path[256];
    const ssize_t bytes = read(pipe_fds[0], path, sizeof(path));
    close(pipe_fds[0]);
    directory_.assign(path, bytes > 0 ? static_cast<size_t>(bytes) : 0);
  }
  ~Child() {
    if (!has_ended_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    urnic_run_dir_remove(directory_.c_str());
  }

  pid_t pid() const { return pid_; }
  const std::string& directory() const { return directory_; }
  bool Runs() const { return waitpid(pid_, nullptr, WNOHANG) == 0; }
  // The signal that has ended it. Waits for its end.
  int EndingSignal() {
    int status = 0;
    has_ended_ = true;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  pid_t pid_;
  std::string directory_;
  bool has_ended_ = false;
};

class HeldProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoHeldProcess(); !why.empty())
      GTEST_SKIP() << "pidfd_open: " << why;
    setenv("XDG_RUNTIME_DIR", testing::TempDir().c_str(), 1);
  }
  // Neither it nor another process is signalled.
  static void ExpectMistake(const std::string& directory, const char* text) {
    HeldProcess process(directory);
    process.Signal(SIGKILL);
    EXPECT_FALSE(process.has_ended()) << directory;
    EXPECT_NE(process.mistake().find(text), std::string::npos)
        << directory << ": " << process.mistake();
  }
};

TEST_F(HeldProcessTest, TheProcessOfTheDirectoryIsSignalled) {
  Child child;
  EXPECT_EQ(OurPidOf(child.directory()), child.pid());
  HeldProcess process(child.directory());
  EXPECT_EQ(process.mistake(), "");
  process.Signal(SIGTERM);
  EXPECT_EQ(process.mistake(), "");
  EXPECT_FALSE(process.has_ended());
  EXPECT_EQ(child.EndingSignal(), SIGTERM);
  process.Signal(SIGTERM);
  EXPECT_TRUE(process.has_ended());
}

TEST_F(HeldProcessTest, AProcessThatHasEndedIsNotSignalled) {
  Child child;
  kill(child.pid(), SIGKILL);
  child.EndingSignal();
  HeldProcess process(child.directory());
  EXPECT_TRUE(process.has_ended());
  process.Signal(SIGTERM);
  EXPECT_EQ(process.mistake(), "");
}

TEST_F(HeldProcessTest, AnotherProcessWithThePidIsNotSignalled) {
  const Child child;
  HeldProcess process(WithStartTime(child.directory(), "1"));
  EXPECT_TRUE(process.has_ended());
  process.Signal(SIGKILL);
  ExpectMistake(WithStartTime(child.directory(), "0"), "start time");
  EXPECT_TRUE(child.Runs());
}

TEST_F(HeldProcessTest, ThisProgramAndTheFirstProcessAreNotSignalled) {
  const std::string own = MakeRunDirectory();
  ExpectMistake(own, "this program");
  ExpectMistake(WithPid(own, 1), "first process");
  ExpectMistake(WithPid(own, 0), "PID namespace");
  urnic_run_dir_remove(own.c_str());
}

TEST_F(HeldProcessTest, AProcessOfAnotherPidNamespaceIsNotSignalled) {
  const Child child;
  const std::string pid = std::to_string(child.pid());
  for (const std::string& name :
       {"urnic-1-" + pid + "-1", "urnic-" + pid, std::string("urnic---"),
        std::string("run"), std::string()}) {
    EXPECT_EQ(OurPidOf(testing::TempDir() + name), 0) << name;
    ExpectMistake(testing::TempDir() + name, "PID namespace");
  }
  EXPECT_TRUE(child.Runs());
}

TEST_F(HeldProcessTest, ADirectoryOfAnotherUserNamesNoProcessOfRoot) {
  const Child child;
  if (geteuid() != 0 ||
      chown(child.directory().c_str(), kNobody, kNobody) != 0) {
    GTEST_SKIP() << "needs root, to be another user as well";
  }
  ExpectMistake(child.directory(), "another user");
  EXPECT_TRUE(child.Runs());
}

}  // namespace
}  // namespace urnic
