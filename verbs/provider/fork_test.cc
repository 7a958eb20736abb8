// After fork(), verbs fail with EIO in the child and do not affect the parent.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "verbs/provider/testing/own_program.h"
#include "verbs/provider/testing/verbs_pair.h"

// The children end in the middle of their work: what they leave is not a leak.
extern "C" int __lsan_is_turned_off() { return 1; }

namespace urnic {
namespace {

// Exit status of the child: the number of the first check that failed.
int InChild(ibv_context* context, Pair& pair) {
  ibv_wc wc;
  if (ibv_poll_cq(pair.a.cq(), 1, &wc) != -1) return 1;
  if (pair.a.PostSend({pair.a.Sge(0, 8)}) != EIO) return 2;
  if (pair.a.PostRecv(0, {}) != EIO) return 3;
  if (ibv_req_notify_cq(pair.a.cq(), 0) != EIO) return 4;
  if (pair.a.To(IBV_QPS_ERR) != EIO) return 5;
  if (ibv_destroy_qp(pair.a.qp()) != EIO) return 6;
  if (ibv_destroy_cq(pair.a.cq()) != EIO) return 7;
  if (ibv_dereg_mr(pair.a.mr()) != EIO) return 8;
  if (ibv_dealloc_pd(pair.a.pd()) != EIO) return 9;
  ibv_device_attr device;
  if (ibv_query_device(context, &device) != EIO) return 10;
  ibv_port_attr port;
  if (ibv_query_port(context, 1, &port) != EIO) return 11;
  errno = 0;
  if (ibv_alloc_pd(context) != nullptr || errno != EIO) return 12;
  errno = 0;
  if (ibv_create_cq(context, 1, nullptr, nullptr, 0) != nullptr ||
      errno != EIO) {
    return 13;
  }
  static char memory[8];
  errno = 0;
  if (ibv_reg_mr(pair.a.pd(), memory, 8, 0) != nullptr || errno != EIO) {
    return 14;
  }
  ibv_device** list = ibv_get_device_list(nullptr);
  if (list == nullptr) return 16;
  // A device that the child opens is its own.
  ibv_context* const own = ibv_open_device(list[0]);
  if (own == nullptr) return 17;
  ibv_free_device_list(list);
  ibv_pd* const pd = ibv_alloc_pd(own);
  if (pd == nullptr || ibv_dealloc_pd(pd) != 0) return 18;
  if (ibv_close_device(own) != 0) return 19;
  if (ibv_close_device(context) != 0) return 15;
  return 0;
}

TEST(ForkTest, TheChildGetsEioAndTheParentGoesOn) {
  OpenDevice device;
  Pair pair(device);
  for (int round = 0; round < 3; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    // exit(), not _exit(): our exit handlers must do nothing there.
    if (child == 0) std::exit(InChild(device, pair));
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_EQ(pair.b.PostRecv(0, {pair.b.Sge(0, 8)}), 0);
    EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), 0);
    EXPECT_EQ(pair.b.Poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
  }
}

// Opens the device, sends, sends from unmapped memory, closes.
void UseTheDevice() {
  OpenDevice device;
  Pair pair(device);
  EXPECT_EQ(pair.b.PostRecv(0, {pair.b.Sge(0, 8)}), 0);
  EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), 0);
  EXPECT_EQ(pair.b.Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
  constexpr size_t kPage = 4096;
  void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ibv_mr* mr = ibv_reg_mr(pair.a.pd(), page, kPage, kAllRights);
  ASSERT_NE(mr, nullptr);
  // The program has a handler, and the guard stays in front of it.
  EXPECT_NE(signal(SIGSEGV, [](int) { _exit(97); }), SIG_ERR);
  munmap(page, kPage);
  EXPECT_EQ(pair.a.PostSend({{reinterpret_cast<uint64_t>(page), 8, mr->lkey}}),
            0);
  EXPECT_EQ(pair.a.Poll().status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

// As a daemon does: looks at the device, forks, and works in the child. Here
// the child does the same again.
TEST(ForkTest, AChildOpensTheDeviceAfterTheLastClose) {
  RunInOwnProgram("ForkTest.DISABLED_OpensClosesForksAndOpens");
}

TEST(ForkTest, DISABLED_OpensClosesForksAndOpens) {
  UseTheDevice();
  for (int generation = 0; generation < 2; ++generation) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child != 0) {
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
      _exit(HasFailure() ? 1 : WEXITSTATUS(status));
    }
    UseTheDevice();
  }
  _exit(HasFailure() ? 1 : kPartIsDone);
}

// A daemon does not need the descriptors and the directory of its parent.
TEST(ForkTest, AChildOpensTheDeviceWithoutItsParentsDescriptors) {
  RunInOwnProgram("ForkTest.DISABLED_ForksClosesAllAndOpens");
}

TEST(ForkTest, DISABLED_ForksClosesAllAndOpens) {
  UseTheDevice();
  for (int generation = 0; generation < 2; ++generation) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child != 0) {
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
      _exit(HasFailure() ? 1 : WEXITSTATUS(status));
    }
    ASSERT_EQ(syscall(SYS_close_range, 3u, ~0u, 0u), 0);
    ASSERT_EQ(chdir("/"), 0);
    UseTheDevice();
  }
  _exit(HasFailure() ? 1 : kPartIsDone);
}

TEST(ForkTest, AChildThatFailsToLoadItsCopyTriesOnce) {
  RunInOwnProgram("ForkTest.DISABLED_ForksAndFailsToLoad");
}

TEST(ForkTest, DISABLED_ForksAndFailsToLoad) {
  UseTheDevice();
  int errors[2];
  ASSERT_EQ(pipe2(errors, O_NONBLOCK), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ibv_device** list = ibv_get_device_list(nullptr);
    // No byte can be written to the copy.
    const rlimit none = {0, RLIM_INFINITY};
    if (list == nullptr || dup2(errors[1], STDERR_FILENO) < 0 ||
        setrlimit(RLIMIT_FSIZE, &none) != 0) {
      _exit(1);
    }
    for (int i = 0; i < 3; ++i) {
      errno = 0;
      if (ibv_open_device(list[0]) != nullptr || errno != EIO) _exit(2);
    }
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  char text[4096];
  const ssize_t bytes = read(errors[0], text, sizeof(text));
  ASSERT_GT(bytes, 0);
  const std::string said(text, static_cast<size_t>(bytes));
  constexpr char kWords[] = "no RNIC of its own";
  const size_t first = said.find(kWords);
  EXPECT_NE(first, said.npos) << said;
  EXPECT_EQ(said.find(kWords, first + 1), said.npos) << said;
  _exit(HasFailure() ? 1 : kPartIsDone);
}

// Runs a verbs program of its own, by exec, that calls exit() with everything
// open; its stderr goes to `errors`.
void ExitWithEverythingOpen(const char* debug, const std::string& stats,
                            const std::string& errors) {
  RunInOwnProgram("ForkTest.DISABLED_ExitsWithEverythingOpen", [&] {
    setenv("URNIC_DEBUG", debug, 1);
    setenv("URNIC_STATS", stats.c_str(), 1);
    if (std::freopen(errors.c_str(), "w", stderr) == nullptr) _exit(98);
  });
}

std::vector<std::string> Lines(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(ForkTest, AProgramThatExitsWithEverythingOpenWritesItsCounters) {
  const std::string stats = testing::TempDir() + "/stats";
  std::remove(stats.c_str());
  ExitWithEverythingOpen("", stats, testing::TempDir() + "/errors");
  const std::vector<std::string> lines = Lines(stats);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].starts_with("{\"device\": \"urnic0\"")) << lines[0];
  // With those of the live queue pairs: one send, and no other packet.
  for (const char* wanted :
       {"\"requests_sent\": 1,", "\"requests_resent\": 0,"}) {
    EXPECT_NE(lines[0].find(wanted), std::string::npos) << lines[0];
  }
}

TEST(ForkTest, FilesThatCannotBeWrittenAreNamedOnce) {
  const std::string errors = testing::TempDir() + "/errors";
  ExitWithEverythingOpen("/no/debug", "/no/stats", errors);
  const std::vector<std::string> lines = Lines(errors);
  for (const char* wanted :
       {"urnic: URNIC_DEBUG=/no/debug: No such file or directory",
        "urnic: URNIC_STATS=/no/stats: No such file or directory"}) {
    EXPECT_EQ(std::count(lines.begin(), lines.end(), wanted), 1) << wanted;
  }
}

// A part of the tests above.
TEST(ForkTest, DISABLED_ExitsWithEverythingOpen) {
  auto* device = new OpenDevice;
  auto* pair = new Pair(*device);
  EXPECT_EQ(pair->b.PostRecv(0, {pair->b.Sge(0, 8)}), 0);
  EXPECT_EQ(pair->a.PostSend({pair->a.Sge(0, 8)}), 0);
  EXPECT_EQ(pair->a.Poll().status, IBV_WC_SUCCESS);
  std::exit(kPartIsDone);
}

}  // namespace
}  // namespace urnic
