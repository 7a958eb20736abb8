// The files in ports/1/counters, with a stand-in for the process that has the
// device open.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

#include "verbs/preload/testing/preloaded.h"

namespace urnic {
namespace {

constexpr char kFolder[] = "/sys/class/infiniband/urnic0/ports/1/counters";
constexpr char kPath[] =
    "/sys/class/infiniband/urnic0/ports/1/counters/port_xmit_data";

// Answers as the control socket of urnic0 does: each time with the next number.
class Answerer {
 public:
  Answerer() : listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    const std::string directory = PreloadApi().run_dir();
    path_ = directory + "/urnic0.sock";
    // A socket address holds only 107 characters.
    const int at = open(directory.c_str(), O_PATH | O_CLOEXEC);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof(address.sun_path),
                  "/proc/self/fd/%d/urnic0.sock", at);
    EXPECT_EQ(
        bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
        0);
    EXPECT_EQ(listen(listener_, 8), 0);
    close(at);
    thread_ = std::thread([this] { Run(); });
  }
  ~Answerer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
    unlink(path_.c_str());
  }
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;

 private:
  void Run() {
    for (int number = 1;; ++number) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      char request[64] = {};
      EXPECT_GT(recv(fd, request, sizeof(request) - 1, 0), 0);
      EXPECT_STREQ(request, "counters");
      const std::string answer = "ok\nport loop\nnetns 1\nport_xmit_data " +
                                 std::to_string(number) +
                                 "\nport_rcv_data 77\nout_of_sequence 5\n";
      EXPECT_GT(send(fd, answer.data(), answer.size(), MSG_NOSIGNAL), 0);
      close(fd);
    }
  }

  const int listener_;
  std::string path_;
  std::thread thread_;
};

std::string Read(int fd) {
  char text[64] = {};
  const ssize_t n = read(fd, text, sizeof(text) - 1);
  return n < 0 ? "error" : std::string(text, static_cast<size_t>(n));
}

TEST(CounterFileTest, WithoutAnOpenDeviceThereIsNoValue) {
  EXPECT_EQ(access(kPath, R_OK), 0) << "it is listed";
  EXPECT_EQ(open(kPath, O_RDONLY), -1);
  EXPECT_EQ(errno, ENODEV);
}

TEST(CounterFileTest, EachReadFromTheBeginningGetsThePresentValue) {
  Answerer answerer;
  const int fd = open(kPath, O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(Read(fd), "2\n") << "the first was for open()";
  EXPECT_EQ(Read(fd), "") << "the end";
  EXPECT_EQ(lseek(fd, 0, SEEK_SET), 0);
  EXPECT_EQ(Read(fd), "3\n");
  EXPECT_EQ(close(fd), 0);
}

TEST(CounterFileTest, AStreamGetsTheValueWhenItIsOpened) {
  Answerer answerer;
  FILE* file = std::fopen(kPath, "r");
  ASSERT_NE(file, nullptr);
  char line[64] = {};
  EXPECT_NE(std::fgets(line, sizeof(line), file), nullptr);
  EXPECT_STREQ(line, "1\n");
  std::fclose(file);
}

TEST(CounterFileTest, AnOpenFileKeepsItsValueWhenTheDeviceIsClosed) {
  int fd = -1;
  {
    Answerer answerer;
    fd = open(kPath, O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
  }
  EXPECT_EQ(Read(fd), "1\n");
  close(fd);
}

TEST(CounterFileTest, ADescriptorOfAnotherFileIsLeftAlone) {
  Answerer answerer;
  const int fd = open(kPath, O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const int other = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(dup2(other, fd), fd);
  EXPECT_NE(Read(fd), "2\n");
  close(other);
  close(fd);
}

TEST(CounterFileTest, TheResolvedPathIsTheCounterAsWell) {
  Answerer answerer;
  char path[PATH_MAX];
  ASSERT_NE(realpath(kPath, path), nullptr);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0) << path;
  EXPECT_EQ(Read(fd), "2\n");
  close(fd);
}

TEST(CounterFileTest, PathsFromTheFolderWork) {
  Answerer answerer;
  const auto before = std::filesystem::current_path();
  ASSERT_EQ(chdir(kFolder), 0);
  const int fd = open("port_xmit_data", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(Read(fd), "2\n");
  close(fd);
  const int folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int also = openat(folder, "port_xmit_data", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(also, 0);
  EXPECT_EQ(Read(also), "4\n");
  close(also);
  close(folder);
  ASSERT_EQ(chdir(before.c_str()), 0);
}

TEST(CounterFileTest, HwCountersAreFoundByTheirNames) {
  Answerer answerer;
  const auto before = std::filesystem::current_path();
  ASSERT_EQ(chdir("/sys/class/infiniband/urnic0/ports/1/hw_counters"), 0);
  const int fd = open("out_of_sequence", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(Read(fd), "5\n");
  close(fd);
  EXPECT_EQ(open("iwarp_timeouts", O_RDONLY), -1) << "of another kind";
  ASSERT_EQ(chdir(before.c_str()), 0);
}

TEST(CounterFileTest, CountersCannotBeWritten) {
  Answerer answerer;
  for (const int flags : {O_WRONLY, O_RDWR, O_RDONLY | O_TRUNC}) {
    EXPECT_EQ(open(kPath, flags), -1);
    EXPECT_EQ(errno, EACCES);
  }
}

TEST(CounterFileTest, WhatIsNotCountedIsAbsent) {
  EXPECT_TRUE(std::filesystem::exists(std::string(kFolder) + "/port_rcv_data"));
  EXPECT_FALSE(
      std::filesystem::exists(std::string(kFolder) + "/port_xmit_wait"));
  EXPECT_EQ(open((std::string(kFolder) + "/port_xmit_wait").c_str(), O_RDONLY),
            -1);
  EXPECT_EQ(errno, ENOENT);
}

}  // namespace
}  // namespace urnic
