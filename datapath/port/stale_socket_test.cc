#include "datapath/port/stale_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

namespace urnic {
namespace {

// A socket file; closed, it is what a killed process leaves.
int Bind(const std::string& path, int type) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  const int fd = socket(AF_UNIX, type, 0);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0)
    return fd;
  close(fd);
  return -1;
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

class StaleSocketTest : public testing::TestWithParam<int> {
 protected:
  StaleSocketTest() {
    // Not TempDir(): an address holds 107 characters.
    directory_ = std::filesystem::temp_directory_path() / "urnic_XXXXXX";
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
    path_ = directory_ + "/socket";
  }
  ~StaleSocketTest() override {
    unlink(path_.c_str());
    EXPECT_EQ(rmdir(directory_.c_str()), 0) << "something is left";
  }

  std::string directory_;
  std::string path_;
};

TEST_P(StaleSocketTest, ASocketWithAListenerStays) {
  const int fd = Bind(path_, GetParam());
  ASSERT_EQ(listen(fd, 1), 0);
  EXPECT_FALSE(IsStaleSocket(path_));
  EXPECT_EQ(RemoveStaleSocket(path_), 0);
  EXPECT_TRUE(Exists(path_));
  close(fd);
  EXPECT_TRUE(IsStaleSocket(path_));
  EXPECT_EQ(RemoveStaleSocket(path_), 0);
  EXPECT_FALSE(Exists(path_));
}

INSTANTIATE_TEST_SUITE_P(OfStreamsAndPackets, StaleSocketTest,
                         testing::Values(SOCK_STREAM, SOCK_SEQPACKET));

TEST_F(StaleSocketTest, OtherFilesStay) {
  EXPECT_EQ(RemoveStaleSocket(path_), 0);
  std::fclose(std::fopen(path_.c_str(), "we"));
  EXPECT_FALSE(IsStaleSocket(path_));
  EXPECT_EQ(RemoveStaleSocket(path_), 0);
  EXPECT_TRUE(Exists(path_));
}

TEST_F(StaleSocketTest, AProgramThatStartsMeanwhileDoesNotLoseItsSocket) {
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> passes = 0;
  std::thread cleaner([&] {
    for (; !stop; ++passes) (void)RemoveStaleSocket(path_);
  });
  const auto await_passes = [&](uint64_t number) {
    const uint64_t begin = passes;
    while (passes < begin + number) std::this_thread::yield();
  };
  // Each round leaves a stale socket, and binds its own in its place, as the
  // next start does. A memif socket is never taken for stale while it is bound.
  int lost = 0;
  for (int i = 0; i != 5000; ++i) {
    close(Bind(path_, SOCK_SEQPACKET));
    int fd = -1;
    while (fd < 0) {
      (void)RemoveStaleSocket(path_);
      fd = Bind(path_, SOCK_SEQPACKET);
    }
    // The pass that may have it aside ends.
    await_passes(2);
    lost += access(path_.c_str(), F_OK) != 0;
    close(fd);
  }
  stop = true;
  cleaner.join();
  EXPECT_EQ(lost, 0);
}

}  // namespace
}  // namespace urnic
