#include "verbs/preload/run_dir.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr uid_t kNobody = 65534;

std::vector<std::string> Visited() {
  std::vector<std::string> paths;
  urnic_run_dir_visit(
      [](void* context, const char* path, unsigned long long) {
        static_cast<std::vector<std::string>*>(context)->emplace_back(path);
      },
      &paths);
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Two users have directories, each in its own runtime directory, and `uid`
// looks for them. Returns the exit status of the child in which it runs.
int SeenBy(uid_t uid) {
  if (unshare(CLONE_NEWNS) != 0 ||
      mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return 1;
  }
  mkdir("/run/user", 0755);
  for (const char* const place : {"/run/user", "/tmp"}) {
    if (mount("tmpfs", place, "tmpfs", 0, nullptr) != 0) return 2;
  }
  unsetenv("TMPDIR");
  const std::string mine = "/run/user/0";
  const std::string other = "/run/user/" + std::to_string(kNobody);
  for (const std::string& place : {mine, other}) {
    if (mkdir(place.c_str(), 0755) != 0) return 3;
  }
  if (chown(other.c_str(), kNobody, kNobody) != 0) return 4;
  char path[256];
  setenv("XDG_RUNTIME_DIR", mine.c_str(), 1);
  if (urnic_run_dir_make(path, sizeof(path)) != 0) return 5;
  const std::string first = path;
  if (setresuid(kNobody, kNobody, 0) != 0) return 6;
  setenv("XDG_RUNTIME_DIR", other.c_str(), 1);
  if (urnic_run_dir_make(path, sizeof(path)) != 0) return 7;
  const std::string second = path;
  if (second.find(other) != 0) return 8;
  if (setresuid(uid, uid, 0) != 0) return 9;
  // The looking user's XDG_RUNTIME_DIR is root's directory, then the other one.
  for (const std::string& place : {mine, other}) {
    setenv("XDG_RUNTIME_DIR", place.c_str(), 1);
    const std::vector<std::string> wanted =
        uid == 0 ? std::vector{first, second} : std::vector{second};
    if (Visited() != wanted) return 10;
  }
  return 0;
}

TEST(RunDirTest, RootSeesAllUsersDirectoriesAndOthersTheirOwn) {
  if (getuid() != 0) GTEST_SKIP() << "needs root, to be another user as well";
  for (const uid_t uid : {uid_t{0}, kNobody}) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(SeenBy(uid));
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << "as user " << uid;
  }
}

}  // namespace
