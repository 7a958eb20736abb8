#include "datapath/port_claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

namespace urnic {
namespace {

using testing::HasSubstr;

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

TEST(PortClaimTest, SecondOpenerLearnsPidAndModeOfTheHolder) {
  for (PortMode mode : {PortMode::kEmbedded, PortMode::kService}) {
    const std::string identity = Unique("held");
    Child holder([&] {
      auto* claim = new absl::StatusOr(PortClaim::Take(identity, mode));
      return claim->ok();
    });
    ASSERT_TRUE(holder.ok());
    const auto second = PortClaim::Take(identity, PortMode::kEmbedded);
    ASSERT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
    const std::string text(second.status().message());
    EXPECT_THAT(text, HasSubstr("pid " + std::to_string(holder.pid())));
    EXPECT_THAT(text,
                HasSubstr(mode == PortMode::kService ? "urnicd" : "embedded"));
    holder.Kill();
    EXPECT_TRUE(PortClaim::Take(identity, PortMode::kEmbedded).ok());
  }
}

TEST(PortClaimTest, LongNamesAreClaimedToo) {
  const std::string identity = Unique("long") + std::string(300, 'x');
  const auto first = PortClaim::Take(identity, PortMode::kService);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(PortClaim::Take(identity, PortMode::kEmbedded).ok());
  EXPECT_TRUE(PortClaim::Take(identity + "y", PortMode::kEmbedded).ok());
}

TEST(PortClaimTest, LoopIsNobodysAndOrdinalsDiffer) {
  const auto a = PortClaim::Take("loop", PortMode::kEmbedded);
  const auto b = PortClaim::Take("loop", PortMode::kEmbedded);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE(a->ordinal(), b->ordinal());
}

TEST(PortClaimTest, NinthRnicOfANamespaceIsRefused) {
  std::vector<PortClaim> claims;
  absl::Status status;
  while (claims.size() <= kOrdinals) {
    auto claim = PortClaim::Take("loop", PortMode::kEmbedded);
    status = claim.status();
    if (!claim.ok()) break;
    claims.push_back(std::move(*claim));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LE(claims.size(), kOrdinals);
}

TEST(PortClaimTest, ForkedChildDoesNotKeepTheClaim) {
  const std::string identity = Unique("fork");
  auto claim = PortClaim::Take(identity, PortMode::kEmbedded);
  ASSERT_TRUE(claim.ok());
  Child child([] { return true; });
  *claim = PortClaim();
  EXPECT_TRUE(PortClaim::Take(identity, PortMode::kEmbedded).ok());
}

}  // namespace
}  // namespace urnic
