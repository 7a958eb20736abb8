#include "verbs/control/control_socket.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

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

// Clients that break the protocol. Afterwards a correct client gets its answer.
class BadClientTest : public testing::Test {
 protected:
  BadClientTest() {
    EXPECT_EQ(chdir(testing::TempDir().c_str()), 0);
    control_ = std::make_unique<ControlSocket>(
        ".", std::vector<std::string>{"urnic0"},
        [](std::string_view request, const auto& reply) {
          reply("you said " + std::string(request));
        });
  }
  // The answer to "hello"; empty: there is none.
  static std::string Ask() {
    const int fd = Connect();
    EXPECT_EQ(send(fd, "hello", 5, MSG_NOSIGNAL), 5);
    char answer[64] = {};
    const ssize_t bytes = recv(fd, answer, sizeof(answer), 0);
    close(fd);
    return bytes > 0 ? answer : "";
  }

  std::unique_ptr<ControlSocket> control_;
};

TEST_F(BadClientTest, AFloodOfThoseThatHangUpIsPassedOver) {
  for (int i = 0; i < 2000; ++i) {
    const int fd = Connect();
    // Some have sent a request, whose answer has no reader.
    if (i % 2 == 0) {
      EXPECT_EQ(send(fd, "flood", 5, MSG_NOSIGNAL), 5);
    }
    close(fd);
  }
  EXPECT_EQ(Ask(), "you said hello");
}

// The answer comes before the silent clients are disconnected, which takes some
// seconds.
TEST_F(BadClientTest, ThoseThatSayNothingHoldUpNobody) {
  std::vector<int> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(Connect());
  EXPECT_EQ(Ask(), "you said hello");
  char nothing;
  EXPECT_EQ(recv(silent.back(), &nothing, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN) << "it may still ask";
  for (const int fd : silent) {
    EXPECT_EQ(recv(fd, &nothing, 1, 0), 0) << "hung up on";
    close(fd);
  }
  EXPECT_EQ(Ask(), "you said hello");
}

TEST_F(BadClientTest, OneMayTakeItsTimeToAsk) {
  const int slow = Connect();
  EXPECT_EQ(Ask(), "you said hello");
  EXPECT_EQ(send(slow, "late", 4, MSG_NOSIGNAL), 4);
  char answer[64] = {};
  EXPECT_GT(recv(slow, answer, sizeof(answer), 0), 0);
  EXPECT_STREQ(answer, "you said late");
  close(slow);
}

TEST_F(BadClientTest, ARequestThatIsTooLongIsCut) {
  const int fd = Connect();
  const std::string request(10'000, 'x');
  EXPECT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string answer(1000, '\0');
  const ssize_t bytes = recv(fd, answer.data(), answer.size(), 0);
  EXPECT_EQ(bytes, 9 + URNIC_CONTROL_REQUEST_MAX);
  close(fd);
  EXPECT_EQ(Ask(), "you said hello");
}

// The file's mode keeps others away. Even with it changed, they are not served.
TEST_F(BadClientTest, AnotherUserIsNotServed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be another user as well";
  const std::string path = "urnic0" URNIC_CONTROL_SUFFIX;
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  constexpr int kNoOtherUser = 3;
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (setresuid(kNobody, kNobody, kNobody) != 0) _exit(kNoOtherUser);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof(address.sun_path), "%s",
                  path.c_str());
    // The directory may be closed to others as well.
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) !=
        0) {
      _exit(0);
    }
    send(fd, "hello", 5, MSG_NOSIGNAL);
    char answer[64];
    _exit(recv(fd, answer, sizeof(answer), 0) > 0 ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == kNoOtherUser)
    GTEST_SKIP() << "this user namespace has no other user";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Ask(), "you said hello");
}

}  // namespace
}  // namespace urnic::control
