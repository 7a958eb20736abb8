#include "datapath/guest/eal.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>

namespace urnic {
namespace {

std::set<int> OpenFds() {
  std::set<int> fds;
  DIR* dir = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(dir)) {
    const int fd = atoi(entry->d_name);
    if (entry->d_name[0] != '.' && fd != dirfd(dir)) fds.insert(fd);
  }
  closedir(dir);
  return fds;
}

// Whether DPDK has made a runtime directory for the process.
bool HasRuntimeDirectory(pid_t pid) {
  const std::string name = "/dpdk/urnic" + std::to_string(pid);
  const char* runtime = getenv("XDG_RUNTIME_DIR");
  for (const std::string& place :
       {std::string("/run"), std::string("/tmp"),
        std::string(runtime != nullptr ? runtime : "/run")}) {
    struct stat st;
    if (stat((place + name).c_str(), &st) == 0) return true;
  }
  return false;
}

TEST(EalTest, AFailedStartLeavesNothingBehind) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("URNIC_HUGEPAGES", "off", 1);
    EalOptions options;
    options.memory_mb = 1u << 30;  // 1 PiB
    const absl::Status status = StartEal(options);
    _exit(status.ok() ? 1 : HasRuntimeDirectory(getpid()) ? 2 : 0);
  }
  int exit_status = -1;
  waitpid(child, &exit_status, 0);
  EXPECT_EQ(exit_status, 0);
  EXPECT_FALSE(HasRuntimeDirectory(child));
}

// DPDK starts only once per process, so this is one test.
TEST(EalTest, ChangesNothingThatTheProgramSees) {
  cpu_set_t cpus_before, cpus_after;
  sched_getaffinity(0, sizeof(cpus_before), &cpus_before);
  testing::internal::CaptureStderr();
  const std::set<int> fds_before = OpenFds();
  EXPECT_FALSE(EalUsable());
  const absl::Status status = StartEal({});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(EalUsable());
  EXPECT_TRUE(StartEal({}).ok()) << "idempotent";
  EXPECT_FALSE(HasRuntimeDirectory(getpid()));

  sched_getaffinity(0, sizeof(cpus_after), &cpus_after);
  EXPECT_TRUE(CPU_EQUAL(&cpus_before, &cpus_after));
  for (int fd : OpenFds()) {
    if (fds_before.contains(fd)) continue;
    EXPECT_GE(fd, 10) << "low numbers belong to the program";
    EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC) << fd;
  }
  // An impossible device: its message must not reach the program's stderr.
  EXPECT_NE(rte_dev_probe("net_af_packet_t,iface=nonexistent"), 0);
  EXPECT_NE(TakeLastEalError(), "");
  EXPECT_EQ(TakeLastEalError(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");

  const pid_t child = fork();
  if (child == 0) {
    _exit(EalUsable() || StartEal({}).ok() ? 1 : 0);
  }
  int exit_status = -1;
  waitpid(child, &exit_status, 0);
  EXPECT_EQ(exit_status, 0) << "the child must find it unusable";
  EXPECT_TRUE(EalUsable());
}

TEST(EalTest, EveryDriverOfTheListIsLinked) {
  ASSERT_TRUE(StartEal({}).ok());
  for (const char* devargs :
       {"net_ring_x", "net_memif_x,role=server,socket=@urnic_eal_test",
        "net_null_x"}) {
    EXPECT_EQ(rte_dev_probe(devargs), 0) << devargs << TakeLastEalError();
  }
  const std::string path = testing::TempDir() + "/urnic_eal_vhost";
  EXPECT_EQ(rte_dev_probe(("net_vhost_x,iface=" + path).c_str()), 0);
  EXPECT_EQ(rte_eth_dev_count_avail(), 4);
}

TEST(EalTest, LcoreIdsAreDistinctAndReusable) {
  const unsigned a = *AllocateLcore();
  const unsigned b = *AllocateLcore();
  EXPECT_NE(a, b);
  FreeLcore(a);
  EXPECT_EQ(*AllocateLcore(), a);
  TakeLcore(b);
  EXPECT_EQ(rte_lcore_id(), b);
  ReleaseLcore();
  EXPECT_EQ(rte_lcore_id(), LCORE_ID_ANY);
}

}  // namespace
}  // namespace urnic
