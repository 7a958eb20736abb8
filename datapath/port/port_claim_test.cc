#include "datapath/port/port_claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace urnic {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A child that runs `first`, then waits to be killed.
class Child {
 public:
  explicit Child(const std::function<bool()>& first) {
    int ready[2];
    if (pipe(ready) != 0) abort();
    pid_ = fork();
    if (pid_ == 0) {
      const char ok = first() ? 1 : 0;
      if (write(ready[1], &ok, 1) != 1) _exit(1);
      pause();
      _exit(0);
    }
    char ok = 0;
    ok_ = read(ready[0], &ok, 1) == 1 && ok == 1;
    close(ready[0]);
    close(ready[1]);
  }
  ~Child() { Kill(); }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }
  bool ok() const { return ok_; }

 private:
  pid_t pid_ = 0;
  bool ok_ = false;
};

std::string Unique(const char* name) {
  return std::string("iface:") + name + std::to_string(getpid());
}

socklen_t Address(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                name.size());
}

bool Hold(const std::string& name, bool listens) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address;
  const socklen_t bytes = Address(name, address);
  return bind(fd, reinterpret_cast<sockaddr*>(&address), bytes) == 0 &&
         (!listens || listen(fd, 1) == 0);
}

// Connects until the queue of the name's owner is full.
void FillQueue(const std::string& name) {
  sockaddr_un address;
  const socklen_t bytes = Address(name, address);
  for (int error = 0; error == 0;) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), bytes) != 0) {
      error = errno;
    }
    close(fd);
  }
}

constexpr uid_t kNobody = 65534;

// The test has its own network namespace, and may be root there.
#define NEEDS_ANOTHER_USER() \
  if (getuid() != 0) GTEST_SKIP() << "needs root, to be another user as well"

TEST(PortClaimTest, ASecondOpenerLearnsThePidOfTheHolder) {
  const std::string identity = Unique("held");
  Child holder([&] {
    auto* claim = new absl::StatusOr(PortClaim::Take(identity));
    return claim->ok();
  });
  ASSERT_TRUE(holder.ok());
  const auto second = PortClaim::Take(identity);
  ASSERT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("pid " + std::to_string(holder.pid())));
  holder.Kill();
  EXPECT_TRUE(PortClaim::Take(identity).ok());
}

TEST(PortClaimTest, LongNamesAreClaimedToo) {
  const std::string identity = Unique("long") + std::string(300, 'x');
  const auto first = PortClaim::Take(identity);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(PortClaim::Take(identity).ok());
  EXPECT_TRUE(PortClaim::Take(identity + "y").ok());
}

TEST(PortClaimTest, LoopIsNotExclusiveAndOrdinalsDiffer) {
  const auto a = PortClaim::Take("loop");
  const auto b = PortClaim::Take("loop");
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE(a->ordinal(), b->ordinal());
}

TEST(PortClaimTest, TheNinthRnicOfANamespaceIsRefused) {
  std::vector<PortClaim> claims;
  absl::Status status;
  while (claims.size() <= kOrdinals) {
    auto claim = PortClaim::Take("loop");
    status = claim.status();
    if (!claim.ok()) break;
    claims.push_back(std::move(*claim));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LE(claims.size(), kOrdinals);
}

TEST(PortClaimTest, AForkedChildDoesNotKeepTheClaim) {
  const std::string identity = Unique("fork");
  auto claim = PortClaim::Take(identity);
  ASSERT_TRUE(claim.ok());
  Child child([] { return true; });
  *claim = PortClaim();
  EXPECT_TRUE(PortClaim::Take(identity).ok());
}

TEST(PortClaimTest, AHolderWithAFullQueueIsNotReportedInAnotherNamespace) {
  const std::string identity = Unique("asked");
  const auto claim = PortClaim::Take(identity);
  ASSERT_TRUE(claim.ok());
  FillQueue(URNIC_CLAIM_PORT + identity);
  const auto second = PortClaim::Take(identity);
  ASSERT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  const std::string text(second.status().message());
  EXPECT_THAT(text, Not(HasSubstr("namespace")));
  EXPECT_THAT(text, HasSubstr("pid is unknown"));
}

TEST(PortClaimTest, ANameOfAUserWithoutARightIsPassedOver) {
  NEEDS_ANOTHER_USER();
  for (const bool listens : {true, false}) {
    const std::string identity = Unique("squat");
    const std::string name = URNIC_CLAIM_PORT + identity;
    Child squatter([&] { return setuid(kNobody) == 0 && Hold(name, listens); });
    ASSERT_TRUE(squatter.ok());
    // A holder with a full queue is treated like one that answers.
    if (listens) FillQueue(name);
    auto first = PortClaim::Take(identity);
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_THAT(first->warnings(), ElementsAre(HasSubstr("user 65534")));
    EXPECT_THAT(first->warnings()[0], HasSubstr(identity));
    // Openers with a right still exclude each other, even when the name is
    // free.
    const auto second = PortClaim::Take(identity);
    EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(std::string(second.status().message()),
                HasSubstr("pid " + std::to_string(getpid())));
    squatter.Kill();
    EXPECT_FALSE(PortClaim::Take(identity).ok());
    *first = PortClaim();
    const auto third = PortClaim::Take(identity);
    ASSERT_TRUE(third.ok()) << third.status();
    EXPECT_THAT(third->warnings(), IsEmpty());
  }
}

// Opening such a socket takes CAP_NET_RAW, and the kernel lists it.
TEST(PortClaimTest, AUserWithAPacketSocketOnTheInterfaceHasTheRight) {
  NEEDS_ANOTHER_USER();
  Child other([] {
    const int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
    sockaddr_ll address = {};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex("lo"));
    return bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) ==
               0 &&
           fchown(fd, kNobody, kNobody) == 0 && setuid(kNobody) == 0 &&
           Hold(URNIC_CLAIM_PORT "iface:lo", true) &&
           Hold(URNIC_CLAIM_PORT "iface:lo2", true);
  });
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(PortClaim::Take("iface:lo").status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(PortClaim::Take("iface:lo2").ok());
}

// Becomes another user, who may still open packet sockets.
bool BecomeAUserWithPackets() {
  if (prctl(PR_SET_KEEPCAPS, 1) != 0 || setuid(kNobody) != 0) return false;
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  data[0].effective = data[0].permitted = 1u << CAP_NET_RAW;
  return syscall(SYS_capset, &header, data) == 0;
}

// The claim is made first; the driver opens its own socket later.
TEST(PortClaimTest, AUserWhoseRnicIsStillStartingHasTheRight) {
  NEEDS_ANOTHER_USER();
  Child other([] {
    if (!BecomeAUserWithPackets()) return false;
    auto* claim = new absl::StatusOr(PortClaim::Take("iface:lo"));
    return claim->ok();
  });
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(PortClaim::Take("iface:lo").status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(PortClaimTest, OnlyOneOfManyThatPassOverANameGetsThePort) {
  NEEDS_ANOTHER_USER();
  const std::string identity = Unique("race");
  Child squatter([&] {
    return setuid(kNobody) == 0 && Hold(URNIC_CLAIM_PORT + identity, true);
  });
  ASSERT_TRUE(squatter.ok());
  int start[2];
  ASSERT_EQ(pipe(start), 0);
  std::vector<int> results;
  std::vector<pid_t> racers;
  for (int i = 0; i < 8; ++i) {
    int result[2];
    ASSERT_EQ(pipe(result), 0);
    results.push_back(result[0]);
    racers.push_back(fork());
    if (racers.back() != 0) {
      close(result[1]);
      continue;
    }
    close(start[1]);
    char go;
    static_cast<void>(read(start[0], &go, 1) == 0);  // end of file: start
    const auto claim = PortClaim::Take(identity);
    const char ok = claim.ok() ? 1 : 0;
    if (write(result[1], &ok, 1) != 1) _exit(1);
    pause();
  }
  close(start[0]);
  close(start[1]);
  int winners = 0;
  for (const int fd : results) {
    char ok = 0;
    EXPECT_EQ(read(fd, &ok, 1), 1);
    winners += ok;
    close(fd);
  }
  for (const pid_t pid : racers) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  EXPECT_EQ(winners, 1);
}

TEST(PortClaimTest, AnotherUsersOrdinalsAreSharedWhenNoneIsFree) {
  NEEDS_ANOTHER_USER();
  Child squatter([] {
    bool ok = setuid(kNobody) == 0;
    for (unsigned i = 0; i < kOrdinals; ++i) {
      ok = ok && Hold(URNIC_CLAIM_ORDINAL + std::to_string(i), true);
    }
    return ok;
  });
  ASSERT_TRUE(squatter.ok());
  std::vector<PortClaim> claims;
  for (unsigned i = 0; i < kOrdinals; ++i) {
    auto claim = PortClaim::Take("loop");
    ASSERT_TRUE(claim.ok()) << claim.status();
    EXPECT_EQ(claim->ordinal(), i);
    EXPECT_THAT(claim->warnings(), ElementsAre(HasSubstr("user 65534")));
    claims.push_back(std::move(*claim));
  }
  EXPECT_EQ(PortClaim::Take("loop").status().code(),
            absl::StatusCode::kResourceExhausted);
}

// RNICs of other users have a right to their ordinals.
TEST(PortClaimTest, AnotherUsersOrdinalIsLeftAloneWhileOthersAreFree) {
  NEEDS_ANOTHER_USER();
  Child other([] {
    return setuid(kNobody) == 0 && Hold(URNIC_CLAIM_ORDINAL "0", true);
  });
  ASSERT_TRUE(other.ok());
  const auto claim = PortClaim::Take("loop");
  ASSERT_TRUE(claim.ok());
  EXPECT_EQ(claim->ordinal(), 1u);
  EXPECT_THAT(claim->warnings(), IsEmpty());
}

}  // namespace
}  // namespace urnic

// The test takes all ordinals of its namespace, so it needs its own.
int main(int argc, char** argv) {
  if (unshare(getuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) !=
      0) {
    std::perror("a network namespace of the test's own");
    return 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
