#include "datapath/port/port_claim.h"

#include <linux/if_packet.h>
#include <net/if.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ras/errors/refusal.h"
#include "verbs/libc/high_fd.h"

namespace urnic {
namespace {

constexpr int kTrackedFds = 64;

// The descriptors that a forked child must close, because they would keep the
// claim of its parent.
std::atomic<int> g_tracked[kTrackedFds];  // fd + 1, 0 is free

void Track(int fd) {
  static const int registered = pthread_atfork(nullptr, nullptr, [] {
    for (std::atomic<int>& slot : g_tracked) {
      if (const int fd_plus_1 = slot.exchange(0)) close(fd_plus_1 - 1);
    }
  });
  static_cast<void>(registered);
  for (std::atomic<int>& slot : g_tracked) {
    int free = 0;
    if (slot.compare_exchange_strong(free, fd + 1)) return;
  }
}

void CloseTracked(int fd) {
  if (fd < 0) return;
  for (std::atomic<int>& slot : g_tracked) {
    int mine = fd + 1;
    if (slot.compare_exchange_strong(mine, 0)) {
      close(fd);
      return;
    }
  }
}

socklen_t Address(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                name.size());
}

std::string NameOf(const std::string& identity) {
  constexpr size_t kLongest = sizeof(sockaddr_un::sun_path) - 32;
  if (identity.size() <= kLongest) {
    return absl::StrCat(URNIC_CLAIM_PORT, identity);
  }
  return absl::StrCat(URNIC_CLAIM_PORT,
                      absl::Hex(std::hash<std::string>()(identity)));
}

// A name with a suffix: no identity contains a zero.
std::string Behind(std::string name, std::string_view suffix) {
  name.push_back('\0');
  name.append(suffix);
  return name;
}

uint64_t Random() {
  uint64_t value = 0;
  static_cast<void>(getrandom(&value, sizeof(value), 0) == 0);
  return value;
}

// A listening socket with the abstract name, or -errno.
int Listen(const std::string& name) {
  const int fd =
      urnic_move_fd_high(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd < 0) return -errno;
  sockaddr_un address;
  const socklen_t bytes = Address(name, address);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), bytes) < 0 ||
      listen(fd, SOMAXCONN) < 0) {
    const int error = errno;
    close(fd);
    return -error;
  }
  return fd;
}

// A description of the process that listens at `name`; none if there is no
// listener. The connection stays in the listener's queue as long as that
// process lives.
std::optional<std::string> ProcessBehind(const std::string& name) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return std::nullopt;
  sockaddr_un address;
  const socklen_t bytes = Address(name, address);
  std::optional<std::string> process;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), bytes) == 0) {
    ucred peer = {};
    socklen_t length = sizeof(peer);
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length);
    process = peer.pid > 0 ? absl::StrCat(", pid ", peer.pid)
                           : std::string(" in another pid namespace");
  } else if (errno == EAGAIN) {
    process = " whose pid is unknown because its queue is full (see `ss -xlp`)";
  }
  close(fd);
  return process;
}

// Opens a packet socket on the interface of "iface:NAME" that receives nothing;
// or returns -1. If it cannot be opened, the port cannot start either, and
// reports why.
int ShowRight(std::string_view identity) {
  constexpr std::string_view kInterface = "iface:";
  if (!identity.starts_with(kInterface)) return -1;
  const std::string name(identity.substr(kInterface.size()));
  sockaddr_ll address = {};
  address.sll_family = AF_PACKET;
  address.sll_ifindex = static_cast<int>(if_nametoindex(name.c_str()));
  if (address.sll_ifindex == 0) return -1;
  const int fd =
      urnic_move_fd_high(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (fd < 0 ||
      bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    return fd;
  }
  close(fd);
  return -1;
}

struct Holder {
  std::string name;
  uid_t uid = 0;
};

// Holders of the plain name, or of the name with a suffix.
struct Holders {
  bool known = false;
  std::optional<Holder> rightful;
  std::optional<Holder> stranger;
};

// Excludes the socket `mine`, if not negative. `identity` null: an ordinal.
Holders HoldersOf(const std::string& name, const char* identity, int mine) {
  struct Search {
    const std::string& name;
    const char* identity;
    unsigned mine;
    Holders found;
  } search{name, identity, 0, {}};
  struct stat info = {};
  if (mine >= 0 && fstat(mine, &info) == 0) {
    search.mine = static_cast<unsigned>(info.st_ino);
  }
  const auto visit = [](void* context, const urnic_claim_holder* holder) {
    auto& s = *static_cast<Search*>(context);
    Holder it{std::string(holder->name, holder->name_bytes), holder->uid};
    const std::string_view rest =
        std::string_view(it.name).substr(s.name.size());
    if (holder->inode == s.mine || (!rest.empty() && rest[0] != 0)) {
      return;
    }
    const bool right = urnic_claim_has_right(s.identity, it.uid) != 0;
    (right ? s.found.rightful : s.found.stranger) = std::move(it);
  };
  search.found.known = urnic_claim_visit(name.c_str(), visit, &search) == 0;
  return search.found;
}

// A descriptor, or -errno. -EADDRINUSE: `holder` has the name. Otherwise
// `holder`, if any, was ignored.
struct Attempt {
  int fd = -1;
  std::optional<Holder> holder;
};

// Enough for two openers that collide repeatedly.
constexpr int kAttempts = 20;
constexpr useconds_t kPauseUs = 8000;

Attempt Claim(const std::string& name, const char* identity, bool pass_over) {
  for (int i = 0;; ++i) {
    Attempt attempt{Listen(name), std::nullopt};
    if (attempt.fd == -EADDRINUSE) {
      const Holders holders = HoldersOf(name, identity, -1);
      attempt.holder = holders.rightful ? holders.rightful : holders.stranger;
      if (!pass_over || !holders.known || holders.rightful) return attempt;
      attempt.fd = Listen(Behind(
          name, absl::StrCat("#", absl::Hex(Random(), absl::kZeroPad16))));
    }
    if (attempt.fd < 0) return attempt;
    Holders others = HoldersOf(name, identity, attempt.fd);
    if (!others.rightful) return attempt;
    close(attempt.fd);
    if (!pass_over || i == kAttempts) {
      return {-EADDRINUSE, std::move(others.rightful)};
    }
    // The other opener may be giving way to us at this moment.
    usleep(static_cast<useconds_t>(Random() % kPauseUs));
  }
}

absl::Status Busy(const std::string& identity, const Attempt& attempt) {
  return Refusal(
      ErrorCode::kPortBusy,
      absl::StrCat("port ", identity,
                   " is in use by another RNIC: a program under urnic run",
                   ProcessBehind(attempt.holder ? attempt.holder->name
                                                : NameOf(identity))
                       .value_or(" that is starting or ending")));
}

std::string Ignored(std::string_view what, const Holder& holder) {
  return absl::StrCat(
      std::string(what), " is held by a process of user ", holder.uid,
      ProcessBehind(holder.name).value_or(", which does not listen"));
}

}  // namespace

absl::Status PortClaim::TakePort(const std::string& identity) {
  const std::string name = NameOf(identity);
  right_fd_ = ShowRight(identity);
  if (right_fd_ >= 0) Track(right_fd_);
  Attempt attempt = Claim(name, identity.c_str(), /*pass_over=*/true);
  lock_fd_ = attempt.fd;
  if (lock_fd_ == -EADDRINUSE) return Busy(identity, attempt);
  if (lock_fd_ < 0) {
    return Refusal(
        ErrorCode::kSystem,
        absl::StrCat("port ", identity, ": claim: ", strerror(-lock_fd_)));
  }
  Track(lock_fd_);
  if (attempt.holder) {
    warnings_.push_back(absl::StrCat(
        Ignored(absl::StrCat("the name that claims port ", identity),
                *attempt.holder),
        "; that user has no right to the port, so the claim is ignored: end "
        "the process"));
  }
  return absl::OkStatus();
}

absl::Status PortClaim::TakeOrdinal() {
  for (const bool pass_over : {false, true}) {
    for (ordinal_ = 0; ordinal_ < kOrdinals; ++ordinal_) {
      const Attempt attempt = Claim(absl::StrCat(URNIC_CLAIM_ORDINAL, ordinal_),
                                    nullptr, pass_over);
      ordinal_fd_ = attempt.fd;
      if (ordinal_fd_ == -EADDRINUSE) continue;
      if (ordinal_fd_ < 0) {
        return Refusal(ErrorCode::kSystem,
                       absl::StrCat("RNIC ordinal: ", strerror(-ordinal_fd_)));
      }
      Track(ordinal_fd_);
      if (attempt.holder) {
        warnings_.push_back(absl::StrCat(
            "all ", kOrdinals, " RNIC ordinals are taken; ",
            Ignored(absl::StrCat("ordinal ", ordinal_), *attempt.holder),
            " and is shared with it"));
      }
      return absl::OkStatus();
    }
  }
  return Refusal(
      ErrorCode::kTooManyPorts,
      absl::StrCat("all ", kOrdinals,
                   " RNIC ordinals of this network namespace are taken"));
}

absl::StatusOr<PortClaim> PortClaim::Take(std::string_view identity) {
  PortClaim claim;
  if (identity != "loop") {
    if (absl::Status s = claim.TakePort(std::string(identity)); !s.ok())
      return s;
  }
  if (absl::Status s = claim.TakeOrdinal(); !s.ok()) return s;
  return claim;
}

PortClaim::~PortClaim() {
  CloseTracked(ordinal_fd_);
  CloseTracked(lock_fd_);
  CloseTracked(right_fd_);
}

PortClaim& PortClaim::operator=(PortClaim&& other) noexcept {
  std::swap(right_fd_, other.right_fd_);
  std::swap(lock_fd_, other.lock_fd_);
  std::swap(ordinal_fd_, other.ordinal_fd_);
  std::swap(ordinal_, other.ordinal_);
  std::swap(warnings_, other.warnings_);
  return *this;
}

}  // namespace urnic
