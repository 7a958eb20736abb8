#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "verbs/preload/testing/preloaded.h"

namespace urnic {
namespace {

bool IsReadable(int fd) {
  pollfd p{fd, POLLIN, 0};
  return poll(&p, 1, 0) == 1 && (p.revents & POLLIN) != 0;
}

size_t CountOpenFds() {
  const auto all = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// More than the pipe holds (8192), so that some must wait in the set.
constexpr uint64_t kMany = 20000;

TEST(CompChannelTest, HandsOutEventsInOrder) {
  Channel channel;
  ASSERT_GE(channel.fd(), 0);
  EXPECT_FALSE(IsReadable(channel.fd()));
  EXPECT_EQ(channel.Push(1), 1);
  EXPECT_EQ(channel.Push(2), 1);
  EXPECT_EQ(channel.Push(1), 1);  // not merged while there is room
  EXPECT_TRUE(IsReadable(channel.fd()));
  EXPECT_EQ(channel.Read(), 1u);
  EXPECT_EQ(channel.Read(), 2u);
  EXPECT_EQ(channel.Read(), 1u);
  EXPECT_FALSE(IsReadable(channel.fd()));
}

TEST(CompChannelTest, WorksWithEdgeTriggeredEpoll) {
  Channel channel;
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event want{EPOLLIN | EPOLLET, {}};
  ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, channel.fd(), &want), 0);
  epoll_event got{};
  EXPECT_EQ(epoll_wait(epoll, &got, 1, 0), 0);
  for (int i = 0; i < 3; ++i) {
    channel.Push(7);
    EXPECT_EQ(epoll_wait(epoll, &got, 1, 0), 1);
  }
  close(epoll);
}

TEST(CompChannelTest, NonBlockingReadOfAnEmptyChannelIsEagain) {
  Channel channel;
  channel.SetNonBlocking();
  uint64_t handle;
  EXPECT_EQ(read(channel.fd(), &handle, sizeof(handle)), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(CompChannelTest, LosesNothingWhenThePipeIsFull) {
  Channel channel;
  for (uint64_t i = 1; i <= kMany; ++i) ASSERT_EQ(channel.Push(i), 1);
  EXPECT_EQ(channel.Push(kMany), 0);  // waits already, merged
  std::set<uint64_t> seen;
  for (uint64_t i = 1; i <= kMany; ++i) seen.insert(channel.Read());
  EXPECT_EQ(seen.size(), kMany);
  EXPECT_EQ(*seen.rbegin(), kMany);
  EXPECT_FALSE(IsReadable(channel.fd()));
  EXPECT_EQ(channel.Push(5), 1);
  EXPECT_EQ(channel.Read(), 5u);
}

TEST(CompChannelTest, DropRemovesTheEventsOfOneCqAndCountsThem) {
  Channel channel;
  channel.SetNonBlocking();
  for (uint64_t i = 0; i < 3000; ++i) channel.Push(1 + i % 3);
  EXPECT_EQ(channel.Read(), 1u);
  EXPECT_EQ(channel.Drop(1), 999u);
  EXPECT_EQ(channel.Drop(1), 0u);
  for (uint64_t i = 0; i < 2000; ++i) ASSERT_EQ(channel.Read(), 2 + i % 2);
  EXPECT_FALSE(IsReadable(channel.fd()));
}

TEST(CompChannelTest, DropReachesThePipeAndTheSetWhenFull) {
  Channel channel;
  channel.SetNonBlocking();
  std::map<uint64_t, unsigned> pushed;
  for (uint64_t i = 0; i < kMany; ++i) {
    const uint64_t handle = 1 + i % 50;
    pushed[handle] += static_cast<unsigned>(channel.Push(handle));
  }
  EXPECT_EQ(channel.Drop(17), pushed[17]);
  EXPECT_EQ(channel.Drop(50), pushed[50]);
  std::map<uint64_t, unsigned> seen;
  while (const uint64_t handle = channel.Read()) ++seen[handle];
  pushed.erase(17);
  pushed.erase(50);
  EXPECT_EQ(seen, pushed);
}

// Every event counted by a push is read or dropped, and a sleeping reader is
// always woken: a lost wake-up would hang this test.
TEST(CompChannelTest, CountsStayExactBetweenThreads) {
  Channel channel;
  constexpr uint64_t kStop = 999999;
  constexpr int kPushers = 3;
  std::atomic<uint64_t> pushed{0}, dropped{0};
  uint64_t seen = 0;
  std::thread reader([&] {
    while (channel.Read() != kStop) ++seen;
  });
  std::vector<std::thread> pushers;
  for (int t = 0; t < kPushers; ++t)
    pushers.emplace_back([&, t] {
      for (uint64_t i = 0; i < 60000; ++i) {
        const uint64_t handle = 1 + 1000 * static_cast<uint64_t>(t) + i % 500;
        pushed += static_cast<uint64_t>(channel.Push(handle));
        if (i % 5000 == 4999) dropped += channel.Drop(handle);
      }
    });
  for (std::thread& t : pushers) t.join();
  // Wait until the reader has read all: the set has no order, so kStop could
  // come too early.
  while (seen + dropped < pushed) std::this_thread::yield();
  channel.Push(kStop);
  reader.join();
  EXPECT_EQ(seen + dropped, pushed.load());
}

TEST(CompChannelTest, ClosingFreesAllDescriptors) {
  const size_t before = CountOpenFds();
  for (int i = 0; i < 100; ++i) {
    Channel channel;
    ASSERT_EQ(channel.Push(1), 1);
  }
  EXPECT_EQ(CountOpenFds(), before);
}

TEST(CompChannelTest, PushToAClosedChannelIsEbadf) {
  int fd;
  {
    Channel channel;
    fd = channel.fd();
  }
  EXPECT_EQ(PreloadApi().channel_push(fd, 1), -EBADF);
  EXPECT_EQ(PreloadApi().channel_drop(fd, 1), 0u);
  EXPECT_EQ(PreloadApi().channel_push(-1, 1), -EBADF);
  EXPECT_EQ(PreloadApi().channel_push(1 << 30, 1), -EBADF);
}

TEST(CompChannelTest, AReplacedDescriptorIsNoLongerOurs) {
  Channel channel;
  const int other = open("/dev/null", O_RDWR | O_CLOEXEC);
  ASSERT_EQ(dup2(other, channel.fd()), channel.fd());
  channel.Push(1);  // must not raise SIGPIPE
  uint64_t event;
  EXPECT_EQ(read(channel.fd(), &event, sizeof(event)), 0) << "of the other";
  close(other);
}

TEST(CompChannelTest, AfterClosingEverythingNoOtherFileIsWritten) {
  const pid_t child = fork();
  if (child == 0) {
    Channel channel;
    close_range(3, ~0u, 0);
    // One of these files gets the number of the private descriptor.
    std::vector<int> files;
    for (int i = 0; i < 300; ++i)
      files.push_back(memfd_create("stranger", MFD_CLOEXEC));
    const int pushed = channel.Push(5);
    off_t written = 0;
    for (int fd : files) written += lseek(fd, 0, SEEK_END);
    close(channel.fd());
    bool open = true;
    for (int fd : files)
      if (fd != channel.fd()) open &= fcntl(fd, F_GETFD) >= 0;
    _exit(pushed == -EBADF && written == 0 && open ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(CompChannelTest, AVforkChildMayCloseEverything) {
  Channel channel;
  const pid_t child = vfork();
  if (child == 0) {
    for (int fd = 3; fd < 400; ++fd) close(fd);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(channel.Push(3), 1);
  EXPECT_EQ(channel.Read(), 3u);
}

TEST(CompChannelTest, AForkedChildOwnsOnlyItsNewChannels) {
  Channel channel;
  const pid_t child = fork();
  if (child == 0) {
    const bool foreign = channel.Push(3) == -EBADF &&
                         DeviceOf(channel.node()) == -1 &&
                         CreateChannel(channel.node()) == -1;
    Channel own;
    const bool works = own.Push(4) == 1 && own.Read() == 4;
    close(channel.fd());
    _exit(foreign && works ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(channel.Push(3), 1);
  EXPECT_EQ(channel.Read(), 3u);
}

}  // namespace
}  // namespace urnic
