#include "datapath/port_claim.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "verbs/abi/high_fd.h"

namespace urnic {
namespace {

constexpr int kTrackedFds = 64;
// The plain name is the lock. The service adds a second name, so that a later
// opener can say who holds the port without anybody answering questions.
constexpr std::string_view kService = "-service";

// What a forked child has to close: it would hold the claim of its parent.
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

std::string NameOf(std::string_view identity, std::string_view suffix) {
  constexpr size_t kLongest = sizeof(sockaddr_un::sun_path) - 32;
  std::string name = "urnic-port-";
  if (identity.size() <= kLongest) {
    name += identity;
  } else {
    absl::StrAppend(&name, absl::Hex(std::hash<std::string_view>()(identity)));
  }
  name += suffix;
  return name;
}

// A listening socket with the abstract name, or -errno.
int Listen(const std::string& name) {
  const int fd =
      urnic_move_fd_high(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd < 0) return -errno;
  sockaddr_un address;
  const socklen_t bytes = Address(name, address);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), bytes) < 0 ||
      listen(fd, 16) < 0) {
    const int error = errno;
    close(fd);
    return -error;
  }
  return fd;
}

// The process behind the name, 0 if it is in a pid namespace that we do not
// see; nothing if nobody listens.
std::optional<pid_t> ListenerPid(const std::string& name) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return std::nullopt;
  sockaddr_un address;
  const socklen_t bytes = Address(name, address);
  std::optional<pid_t> pid;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), bytes) == 0) {
    ucred peer = {};
    socklen_t length = sizeof(peer);
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length);
    pid = peer.pid;
  } else if (errno == EAGAIN) {
    pid = 0;  // its backlog is full of askers like us
  }
  close(fd);
  return pid;
}

absl::Status Busy(std::string_view identity) {
  const pid_t pid = ListenerPid(NameOf(identity, "")).value_or(0);
  const bool service = ListenerPid(NameOf(identity, kService)).has_value();
  return absl::AlreadyExistsError(
      absl::StrCat("port ", std::string(identity), " is in use by ",
                   service ? "urnicd (service)" : "an embedded RNIC",
                   pid > 0 ? absl::StrCat(", pid ", pid)
                           : std::string(" in another pid namespace")));
}

}  // namespace

absl::Status PortClaim::TakePort(std::string_view identity, PortMode mode) {
  lock_fd_ = Listen(NameOf(identity, ""));
  if (lock_fd_ == -EADDRINUSE) return Busy(identity);
  if (lock_fd_ < 0) {
    return absl::InternalError(absl::StrCat("port ", std::string(identity),
                                            ": claim: ", strerror(-lock_fd_)));
  }
  Track(lock_fd_);
  if (mode == PortMode::kService) {
    mode_fd_ = Listen(NameOf(identity, kService));
    if (mode_fd_ >= 0) Track(mode_fd_);
  }
  return absl::OkStatus();
}

absl::Status PortClaim::TakeOrdinal() {
  for (ordinal_ = 0; ordinal_ < kOrdinals; ++ordinal_) {
    ordinal_fd_ = Listen(absl::StrCat("urnic-ordinal-", ordinal_));
    if (ordinal_fd_ == -EADDRINUSE) continue;
    if (ordinal_fd_ < 0) {
      return absl::InternalError(
          absl::StrCat("RNIC ordinal: ", strerror(-ordinal_fd_)));
    }
    Track(ordinal_fd_);
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "all ", kOrdinals, " RNIC ordinals of this network namespace are taken"));
}

absl::StatusOr<PortClaim> PortClaim::Take(std::string_view identity,
                                          PortMode mode) {
  PortClaim claim;
  if (identity != "loop") {
    if (absl::Status s = claim.TakePort(identity, mode); !s.ok()) return s;
  }
  if (absl::Status s = claim.TakeOrdinal(); !s.ok()) return s;
  return claim;
}

PortClaim::~PortClaim() {
  CloseTracked(ordinal_fd_);
  CloseTracked(mode_fd_);
  CloseTracked(lock_fd_);
}

PortClaim& PortClaim::operator=(PortClaim&& other) noexcept {
  std::swap(lock_fd_, other.lock_fd_);
  std::swap(mode_fd_, other.mode_fd_);
  std::swap(ordinal_fd_, other.ordinal_fd_);
  std::swap(ordinal_, other.ordinal_);
  return *this;
}

}  // namespace urnic
