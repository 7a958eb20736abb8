// The socket at which a memif port connects to its peer, and who else can
// connect there. In the test's own namespaces, with its own /run and /tmp.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "datapath/port/port_factory.h"
#include "datapath/port/port_test_util.h"

namespace urnic {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

bool g_have_namespace = false;

bool WriteFile(const char* path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  return file.good();
}

bool EnterNamespace() {
  const std::string uid = std::to_string(getuid());
  const std::string gid = std::to_string(getgid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS) != 0) return false;
  WriteFile("/proc/self/setgroups", "deny");
  return WriteFile("/proc/self/uid_map", "0 " + uid + " 1") &&
         WriteFile("/proc/self/gid_map", "0 " + gid + " 1") &&
         mount("none", "/run", "tmpfs", 0, nullptr) == 0 &&
         mount("none", "/tmp", "tmpfs", 0, nullptr) == 0;
}

mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
}

class MemifSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!g_have_namespace) GTEST_SKIP() << "user namespaces are not allowed";
  }
  std::unique_ptr<Port> Create(const std::string& dev) {
    PortConfig config{.dev = dev};
    // The port's thread may outlive the test.
    config.warn = [warnings = warnings_](const std::string& line) {
      std::lock_guard lock(warnings->mutex);
      warnings->lines.push_back(line);
    };
    auto port = CreatePort(config);
    EXPECT_TRUE(port.ok()) << port.status();
    return port.ok() ? std::move(*port) : nullptr;
  }
  std::vector<std::string> Warnings() {
    std::lock_guard lock(warnings_->mutex);
    return warnings_->lines;
  }
  static std::unique_ptr<Process> Echo(const std::string& dev) {
    return std::make_unique<Process>(
        std::vector<std::string>{"datapath/port/port_echo", dev});
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::vector<std::string> lines;
  };
  std::shared_ptr<Shared> warnings_ = std::make_shared<Shared>();
};

TEST_F(MemifSocketTest, ByDefaultTheSocketIsAFileOfThisUserAlone) {
  const mode_t before = umask(0);
  const auto port = Create("net_memif0,role=server");
  const auto peer = Echo("net_memif0,role=client");
  EXPECT_TRUE(RoundTrip(*port)) << port->info().text;
  umask(before);
  EXPECT_EQ(ModeOf("/run/urnic-0"), 0700u);
  EXPECT_EQ(ModeOf("/run/urnic-0/memif.sock"), 0600u);
  std::ifstream sockets("/proc/net/unix");
  const std::string list{std::istreambuf_iterator<char>(sockets), {}};
  EXPECT_THAT(list, HasSubstr("/run/urnic-0/memif.sock"));
  EXPECT_THAT(list, Not(HasSubstr("@/")));
  EXPECT_THAT(Warnings(), IsEmpty());
}

TEST_F(MemifSocketTest, TheFileOfAKilledServerIsReplaced) {
  auto first = Echo("net_memif0,role=server");
  ASSERT_TRUE(
      Eventually([] { return access("/run/urnic-0/memif.sock", F_OK) == 0; }));
  first->Kill();
  ASSERT_EQ(access("/run/urnic-0/memif.sock", F_OK), 0) << "left behind";
  const auto port = Create("net_memif0,role=server");
  const auto peer = Echo("net_memif0,role=client");
  EXPECT_TRUE(RoundTrip(*port)) << port->info().text;
}

// A server's socket listens before the server accepts connections, and then
// turns early clients away. Here the test does the same.
TEST_F(MemifSocketTest, AClientThatIsTurnedAwayTriesAgain) {
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, "/run/away");
  ASSERT_EQ(
      bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0);
  ASSERT_EQ(listen(listener, 1), 0);
  const auto port = Create("net_memif0,socket=/run/away,role=client");
  for (int round = 0; round < 3; ++round) {
    pollfd p = {.fd = listener, .events = POLLIN, .revents = 0};
    ASSERT_EQ(poll(&p, 1, kPatienceMs), 1) << round;
    close(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  }
  close(listener);
  const auto peer = Echo("net_memif0,socket=/run/away,role=server");
  EXPECT_TRUE(RoundTrip(*port)) << port->info().text;
}

// In /tmp any user could have created it first.
TEST_F(MemifSocketTest, ADirectoryThatOthersMayUseIsPassedOver) {
  ASSERT_EQ(chmod("/run/urnic-0", 0755), 0);
  const auto port = Create("net_memif0,role=server");
  const auto peer = Echo("net_memif0,role=client");
  EXPECT_TRUE(RoundTrip(*port)) << port->info().text;
  EXPECT_EQ(ModeOf(std::string("/tmp") + "/urnic-0/memif.sock"), 0600u);
  EXPECT_EQ(chmod("/run/urnic-0", 0700), 0);
}

TEST_F(MemifSocketTest, AWarningOfOtherUsersIsGivenOnce) {
  for (const auto& [args, words] :
       {std::pair(",socket=/run/open", "other users may connect to /run/open"),
        std::pair(",socket=name,socket-abstract=yes",
                  "may join the abstract socket @name")}) {
    const auto before = Warnings();
    const mode_t mask = umask(0);
    const std::string memif = std::string("net_memif0") + args;
    const auto port = Create(memif + ",role=server");
    for (int round = 0; round < 2; ++round) {
      const auto peer = Echo(memif + ",role=client");
      EXPECT_TRUE(RoundTrip(*port)) << port->info().text;
    }
    umask(mask);
    auto now = Warnings();
    now.erase(now.begin(), now.begin() + static_cast<long>(before.size()));
    EXPECT_THAT(now, ElementsAre(HasSubstr(words)));
  }
  const auto before = Warnings().size();
  const auto port = Create("net_memif0,socket=/run/closed,role=server");
  const auto peer = Echo("net_memif0,socket=/run/closed,role=client");
  EXPECT_TRUE(RoundTrip(*port)) << port->info().text;
  EXPECT_EQ(Warnings().size(), before) << "only its owner may write to it";
}

}  // namespace

void PrepareNamespace() { g_have_namespace = EnterNamespace(); }

}  // namespace urnic

int main(int argc, char** argv) {
  urnic::PrepareNamespace();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
