#include <gtest/gtest.h>
#include <rdma/rdma_user_ioctl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "verbs/preload/testing/preloaded.h"

namespace urnic {
namespace {

constexpr char kNode0[] = "/dev/infiniband/uverbs0";
constexpr char kNode1[] = "/dev/infiniband/uverbs1";
constexpr char kNode2[] = "/dev/infiniband/uverbs2";  // two ports only

TEST(UverbsNodeTest, LooksLikeTheKernelsCharacterDevice) {
  struct stat st;
  ASSERT_EQ(stat(kNode1, &st), 0);
  EXPECT_TRUE(S_ISCHR(st.st_mode));
  EXPECT_EQ(st.st_rdev, makedev(231, 193));
  ASSERT_EQ(lstat(kNode0, &st), 0);
  EXPECT_EQ(st.st_rdev, makedev(231, 192));
  struct statx stx;
  ASSERT_EQ(statx(AT_FDCWD, kNode1, 0, STATX_BASIC_STATS, &stx), 0);
  EXPECT_EQ(stx.stx_rdev_minor, 193u);
  EXPECT_EQ(access(kNode0, R_OK | W_OK), 0);
  EXPECT_EQ(access(kNode0, X_OK), -1);
}

TEST(UverbsNodeTest, CanBeOpenedManyTimesAndKnowsItsDevice) {
  const int a = open(kNode0, O_RDWR | O_CLOEXEC);
  const int b = open(kNode1, O_RDWR);
  ASSERT_GE(a, 0);
  ASSERT_GE(b, 0);
  EXPECT_EQ(fcntl(a, F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(fcntl(b, F_GETFD), 0);
  EXPECT_EQ(DeviceOf(a), 0);
  EXPECT_EQ(DeviceOf(b), 1);
  struct stat st;
  ASSERT_EQ(fstat(b, &st), 0);
  EXPECT_EQ(st.st_rdev, makedev(231, 193));
  ASSERT_EQ(fstatat(b, "", &st, AT_EMPTY_PATH), 0);
  EXPECT_TRUE(S_ISCHR(st.st_mode));
  close(a);
  close(b);
  const int foreign = open("/", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(DeviceOf(foreign), -1) << "its number was a node's";
  close(foreign);
}

TEST(UverbsNodeTest, PathsWithoutADeviceAreAbsent) {
  struct stat st;
  for (const char* path :
       {kNode2, "/dev/infiniband/uverbs", "/dev/infiniband/uverbs01",
        "/dev/infiniband/rdma_cm0", "/sys/class/misc/rdma_cm/nothing"}) {
    EXPECT_EQ(open(path, O_RDWR), -1) << path;
    EXPECT_EQ(errno, ENOENT) << path;
    EXPECT_EQ(stat(path, &st), -1) << path;
    EXPECT_EQ(access(path, F_OK), -1) << path;
  }
}

TEST(UverbsNodeTest, IoctlSendsLibibverbsToTheWriteProtocol) {
  const int fd = open(kNode0, O_RDWR);
  ib_uverbs_ioctl_hdr header{};
  EXPECT_EQ(ioctl(fd, RDMA_VERBS_IOCTL, &header), -1);
  EXPECT_EQ(errno, ENOTTY);
  close(fd);
}

TEST(UverbsNodeTest, RefusesEveryOtherCommand) {
  const int fd = open(kNode0, O_RDWR);
  ib_uverbs_cmd_hdr header{IB_USER_VERBS_CMD_ALLOC_PD, 2, 0};
  EXPECT_EQ(write(fd, &header, sizeof(header)), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(write(fd, &header, 3), -1);
  EXPECT_EQ(errno, EINVAL);
  header.command = IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL;
  EXPECT_EQ(write(fd, &header, sizeof(header)), -1);
  EXPECT_EQ(errno, EINVAL);
  close(fd);
}

TEST(UverbsNodeTest, StaysRecognizableThroughRealpathAndDirectories) {
  char path[PATH_MAX];
  ASSERT_NE(realpath(kNode1, path), nullptr);
  EXPECT_STREQ(path, kNode1);
  const int dir = open("/dev", O_RDONLY | O_DIRECTORY);
  const int fd = openat(dir, "infiniband/uverbs1", O_RDWR);
  EXPECT_EQ(DeviceOf(fd), 1);
  close(fd);
  close(dir);
}

// Runs in a child, where nothing has been rendered yet.
TEST(UverbsNodeTest, ManyThreadsMayMakeTheFirstAccessTogether) {
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> found{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 16; ++i)
      threads.emplace_back([&found] {
        struct stat st;
        const int fd = open(kNode1, O_RDWR);
        if (stat("/sys/class/infiniband/urnic1/ports/1/gids/33", &st) == 0 &&
            DeviceOf(fd) == 1 && close(fd) == 0)
          ++found;
      });
    for (std::thread& t : threads) t.join();
    // A child forgets objects of its parent on purpose, whatever LeakSanitizer
    // says at exit().
    _exit(found == 16 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(UverbsNodeTest, TwoThreadsMayCloseTheSameDescriptor) {
  for (int i = 0; i < 2000; ++i) {
    const int fd = open(kNode0, O_RDWR);
    std::thread other([fd] { close(fd); });
    close(fd);
    other.join();
  }
  const int a = open(kNode0, O_RDWR);
  const int b = open(kNode1, O_RDWR);
  EXPECT_EQ(DeviceOf(a), 0);
  EXPECT_EQ(DeviceOf(b), 1);
  close(a);
  close(b);
}

}  // namespace
}  // namespace urnic
