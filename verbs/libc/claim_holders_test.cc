#include "verbs/libc/claim_holders.h"

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace {

// Changes the kernel's next list: this socket is left out, with or without
// NLM_F_DUMP_INTR.
unsigned g_hidden = 0;
bool g_says_so = false;
int g_lists = 0;

}  // namespace

// Replaces libc's for claim_holders.c in this program.
extern "C" ssize_t recv(int fd, void* buffer, size_t bytes, int flags) {
  const ssize_t got = recvfrom(fd, buffer, bytes, flags, nullptr, nullptr);
  int left = static_cast<int>(got);
  for (auto* m = static_cast<nlmsghdr*>(buffer); NLMSG_OK(m, left);
       m = NLMSG_NEXT(m, left)) {
    if (m->nlmsg_type == NLMSG_DONE) {
      if (g_hidden != 0 && g_says_so) m->nlmsg_flags |= NLM_F_DUMP_INTR;
      g_hidden = 0;
      ++g_lists;
      break;
    }
    auto* socket = static_cast<unix_diag_msg*>(NLMSG_DATA(m));
    if (socket->udiag_ino == g_hidden) socket->udiag_type = SOCK_DGRAM;
  }
  return got;
}
// _FORTIFY_SOURCE replaces some calls by this one, as under AddressSanitizer.
extern "C" ssize_t __recv_chk(int fd, void* buffer, size_t bytes, size_t,
                              int flags) {
  return recv(fd, buffer, bytes, flags);
}

namespace {

class ClaimHoldersTest : public ::testing::Test {
 protected:
  ~ClaimHoldersTest() override {
    for (const int fd : sockets_) close(fd);
  }
  // The inode of a new socket with that name, or 0.
  unsigned Hold(const std::string& name) {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockets_.push_back(fd);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                              1 + name.size());
    struct stat info = {};
    const bool ok =
        bind(fd, reinterpret_cast<sockaddr*>(&address), bytes) == 0 &&
        listen(fd, 1) == 0 && fstat(fd, &info) == 0;
    return ok ? static_cast<unsigned>(info.st_ino) : 0;
  }
  std::string Name(int i) const {
    return prefix_ + std::to_string(i) + std::string(60, 'x');
  }
  std::multiset<std::string> Visit() {
    std::multiset<std::string> names;
    const auto visit = [](void* context, const urnic_claim_holder* holder) {
      static_cast<std::multiset<std::string>*>(context)->emplace(
          holder->name, holder->name_bytes);
    };
    g_lists = 0;
    EXPECT_EQ(urnic_claim_visit(prefix_.c_str(), visit, &names), 0);
    return names;
  }

  const std::string prefix_ = "urnic-test-" + std::to_string(getpid()) + "-";

 private:
  std::vector<int> sockets_;
};

TEST_F(ClaimHoldersTest, AnInterruptedListIsRequestedAgain) {
  g_hidden = Hold(Name(0));
  ASSERT_NE(g_hidden, 0u);
  g_says_so = true;
  EXPECT_EQ(Visit(), std::multiset<std::string>{Name(0)});
  EXPECT_EQ(g_lists, 2);
  EXPECT_EQ(Visit(), std::multiset<std::string>{Name(0)});
  EXPECT_EQ(g_lists, 1);
}

TEST_F(ClaimHoldersTest, ALongListIsRequestedUntilItAddsNothing) {
  std::multiset<std::string> all;
  unsigned last = 0;
  for (int i = 0; i < 600; ++i) {
    last = Hold(Name(i));
    ASSERT_NE(last, 0u);
    all.insert(Name(i));
  }
  g_hidden = last;
  g_says_so = false;
  EXPECT_EQ(Visit(), all);
  EXPECT_GE(g_lists, 3);
}

}  // namespace
