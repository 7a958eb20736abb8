// Programs rely on their low descriptors: what a port and an engine keep open
// lies above them.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <thread>

#include "datapath/engine/helper_thread.h"
#include "datapath/nic/nic.h"
#include "datapath/port/interface_watch.h"
#include "datapath/port/port_factory.h"
#include "verbs/libc/high_fd.h"

namespace urnic {
namespace {

std::set<int> LowFds() {
  std::set<int> open;
  for (int fd = 0; fd < URNIC_HIGH_FD_MIN; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) open.insert(fd);
  }
  return open;
}

TEST(DescriptorsTest, MovingKeepsTheFileAndFreesItsLowNumber) {
  const int low = open("/dev/null", O_RDWR);
  const int high = urnic_move_fd_high(low);
  EXPECT_GE(high, URNIC_HIGH_FD_MIN);
  EXPECT_EQ(fcntl(low, F_GETFD), -1);
  EXPECT_EQ(fcntl(high, F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(urnic_move_fd_high(high), high);
  EXPECT_EQ(urnic_move_fd_high(-1), -1);
  close(high);
}

TEST(DescriptorsTest, ALowNumberIsKeptIfThereIsNoRoomAbove) {
  rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit small = {URNIC_HIGH_FD_MIN, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &small);
  const int low = open("/dev/null", O_RDWR);
  EXPECT_EQ(urnic_move_fd_high(low), low);
  close(low);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(DescriptorsTest, WatchingAnInterfaceTakesNoLowNumber) {
  const std::set<int> before = LowFds();
  InterfaceWatch watch("lo");
  EXPECT_NE(watch.Read().index, 0);
  EXPECT_EQ(LowFds(), before);
}

TEST(DescriptorsTest, APortAndItsEngineTakeNoLowNumber) {
  // DPDK itself leaves only 0 to 9 free (eal_test).
  PortConfig ports[2];
  ports[0].dev = "ring:descriptors:a";
  ports[1].dev = "ring:descriptors:b";
  auto first = CreatePort(ports[0]);
  ASSERT_TRUE(first.ok()) << first.status();
  // The port's own thread opens and closes some descriptors while it starts.
  // Wait, so that they are not in `before`.
  while ((*first)->info().state == PortState::kStarting) {
    std::this_thread::yield();
  }
  const std::set<int> before = LowFds();
  auto second = CreatePort(ports[1]);
  ASSERT_TRUE(second.ok()) << second.status();
  Nic nic(*std::move(second), NicConfig());
  ASSERT_TRUE(HelperThread::Start(nic.engine()).ok());
  std::set<int> after = LowFds();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!std::ranges::includes(before, after) &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
    after = LowFds();
  }
  EXPECT_THAT(before, ::testing::IsSupersetOf(after));
}

}  // namespace
}  // namespace urnic
