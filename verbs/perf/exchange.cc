#include "verbs/perf/exchange.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace urnic::perf {
namespace {

absl::Status Failed(const std::string& what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", strerror(errno)));
}

bool Whole(int fd, uint8_t* at, size_t bytes, bool sends) {
  while (bytes != 0) {
    const ssize_t done =
        sends ? send(fd, at, bytes, MSG_NOSIGNAL) : recv(fd, at, bytes, 0);
    if (done < 0 && errno == EINTR) continue;
    if (done == 0) errno = ECONNRESET;
    if (done <= 0) return false;
    at += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

// Who connects and says nothing must not hold the other end forever. It may
// take seconds to find a peer's address.
void LimitWaiting(int fd) {
  constexpr timeval kPatience = {.tv_sec = 15, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

absl::StatusOr<Addresses> Resolve(const std::string& host, uint16_t port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error =
      getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0)
    return absl::NotFoundError(absl::StrCat(host, ": ", gai_strerror(error)));
  return Addresses(list);
}

}  // namespace

absl::StatusOr<Exchange> Exchange::Listen(uint16_t port) {
  const int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return Failed("socket");
  const int off = 0;
  const int on = 1;
  setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in6 any = {};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(port);
  int fd = -1;
  if (bind(listener, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) ==
          0 &&
      listen(listener, 1) == 0) {
    fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  }
  const absl::Status status =
      fd < 0 ? Failed(absl::StrCat("TCP port ", port)) : absl::OkStatus();
  close(listener);
  if (!status.ok()) return status;
  LimitWaiting(fd);
  return Exchange(fd);
}

absl::StatusOr<Exchange> Exchange::Connect(const std::string& host,
                                           uint16_t port) {
  const auto addresses = Resolve(host, port);
  if (!addresses.ok()) return addresses.status();
  constexpr auto kPause = std::chrono::milliseconds(100);
  absl::Status status;
  for (int tries = 0; tries < 100; ++tries) {
    for (const addrinfo* at = addresses->get(); at != nullptr;
         at = at->ai_next) {
      const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (fd < 0) return Failed("socket");
      if (connect(fd, at->ai_addr, at->ai_addrlen) == 0) {
        LimitWaiting(fd);
        return Exchange(fd);
      }
      status = Failed(absl::StrCat(host, ", TCP port ", port));
      close(fd);
    }
    if (tries == 0) {
      std::fprintf(stderr, "waiting for a server at %s, TCP port %u\n",
                   host.c_str(), port);
    }
    std::this_thread::sleep_for(kPause);
  }
  return status;
}

Exchange::~Exchange() {
  if (fd_ >= 0) close(fd_);
}

Exchange::Exchange(Exchange&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

absl::Status Exchange::Send(const std::vector<uint8_t>& message) {
  uint32_t bytes = htonl(static_cast<uint32_t>(message.size()));
  std::vector<uint8_t> all(sizeof(bytes) + message.size());
  std::memcpy(all.data(), &bytes, sizeof(bytes));
  std::memcpy(all.data() + sizeof(bytes), message.data(), message.size());
  return Whole(fd_, all.data(), all.size(), /*sends=*/true)
             ? absl::OkStatus()
             : Failed("the other end");
}

absl::StatusOr<std::vector<uint8_t>> Exchange::Receive() {
  uint32_t bytes = 0;
  if (!Whole(fd_, reinterpret_cast<uint8_t*>(&bytes), sizeof(bytes), false))
    return Failed("the other end");
  bytes = ntohl(bytes);
  if (bytes > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the other end sent ", bytes, " bytes: it is not urnic-perf"));
  }
  std::vector<uint8_t> message(bytes);
  if (!Whole(fd_, message.data(), bytes, false)) return Failed("the other end");
  return message;
}

bool Exchange::HasNews() const {
  pollfd poll_fd = {.fd = fd_, .events = POLLIN, .revents = 0};
  return poll(&poll_fd, 1, 0) > 0;
}

}  // namespace urnic::perf
