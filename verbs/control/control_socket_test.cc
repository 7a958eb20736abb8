#include "verbs/control/control_socket.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "verbs/control/control_protocol.h"

namespace {

std::atomic<bool> no_descriptors{false};
std::atomic<int> refused{0};

}  // namespace

// Replaces libc's in this program.
extern "C" int accept4(int fd, sockaddr* from, socklen_t* bytes, int flags) {
  if (no_descriptors) {
    ++refused;
    errno = EMFILE;
    return -1;
  }
  return static_cast<int>(syscall(SYS_accept4, fd, from, bytes, flags));
}

namespace urnic::control {
namespace {

// The state of the thread with that name; 'S': asleep.
char StateOf(const std::string& name) {
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/self/task")) {
    std::string stat;
    std::getline(std::ifstream(task.path() / "stat"), stat);
    const std::string marked = "(" + name + ") ";
    const size_t at = stat.find(marked);
    if (at != std::string::npos) return stat[at + marked.size()];
  }
  return '?';
}

int Connect() {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof(address.sun_path),
                "urnic0" URNIC_CONTROL_SUFFIX);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
            0);
  return fd;
}

TEST(ControlSocketTest, SleepsWhileTheProgramHasNoDescriptors) {
  ASSERT_EQ(chdir(testing::TempDir().c_str()), 0);
  ControlSocket control(
      ".", {"urnic0"}, [](std::string_view request, const auto& reply) {
        EXPECT_TRUE(reply("you said " + std::string(request)));
      });
  no_descriptors = true;
  const int fd = Connect();
  while (refused == 0) sched_yield();
  while (StateOf("urnic-control") != 'S') sched_yield();
  EXPECT_LE(refused, 3);
  no_descriptors = false;
  EXPECT_EQ(send(fd, "hello", 5, 0), 5);
  char answer[64] = {};
  EXPECT_GT(recv(fd, answer, sizeof(answer), 0), 0);
  EXPECT_STREQ(answer, "you said hello");
  close(fd);
}

// Longer than a packet, and than a socket's buffer.
TEST(ControlSocketTest, SendsAnAnswerOfAnyLength) {
  ASSERT_EQ(chdir(testing::TempDir().c_str()), 0);
  std::string sent(3'000'000, 'x');
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 7);
  ControlSocket control(".", {"urnic0"},
                        [&](std::string_view, const auto& reply) {
                          EXPECT_TRUE(reply("ok\n"));
                          EXPECT_TRUE(reply(sent));
                        });
  const int fd = Connect();
  EXPECT_EQ(send(fd, "all", 3, 0), 3);
  std::string got;
  std::string packet(URNIC_CONTROL_ANSWER_MAX, '\0');
  for (ssize_t n; (n = recv(fd, packet.data(), packet.size(), 0)) > 0;) {
    got.append(packet.data(), static_cast<size_t>(n));
  }
  EXPECT_TRUE(got == "ok\n" + sent) << got.size();
  close(fd);
}

}  // namespace
}  // namespace urnic::control
