#include "tests/tcp/kernel_end.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace urnic::testing {
namespace {

constexpr int kTickMs = 20;
constexpr size_t kChunk = 256 * 1024;

sockaddr_in SocketAddress(uint32_t address, uint16_t port) {
  sockaddr_in in = {};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  in.sin_addr.s_addr = htonl(address);
  return in;
}

}  // namespace

KernelEnd::KernelEnd(uint32_t address, uint16_t port, uint64_t send,
                     uint64_t receive, uint64_t seed)
    : send_(send),
      receive_(receive),
      outgoing_(seed),
      incoming_(seed + 1),
      address_(address),
      port_(port) {
  if (address_ != 0) return;
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in any = SocketAddress(INADDR_ANY, port);
  if (bind(listener_, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) !=
          0 ||
      listen(listener_, 1) != 0) {
    report_ = std::string("listen: ") + std::strerror(errno);
  }
}

KernelEnd::~KernelEnd() {
  if (listener_ >= 0) close(listener_);
}

void KernelEnd::Run() {
  const int fd = address_ == 0 ? Accept() : Connect();
  if (fd >= 0) {
    Exchange(fd);
    close(fd);
  }
  done_ = true;
}

int KernelEnd::Accept() {
  while (!stop_) {
    pollfd ready = {listener_, POLLIN, 0};
    if (poll(&ready, 1, kTickMs) <= 0) continue;
    return accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  }
  return -1;
}

int KernelEnd::Connect() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const sockaddr_in peer = SocketAddress(address_, port_);
  (void)connect(fd, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer));
  while (!stop_) {
    pollfd ready = {fd, POLLOUT, 0};
    if (poll(&ready, 1, kTickMs) <= 0) continue;
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error == 0) return fd;
    report_ = std::string("connect: ") + std::strerror(error);
    break;
  }
  close(fd);
  return -1;
}

void KernelEnd::Exchange(int fd) {
  std::vector<uint8_t> buffer(kChunk);
  uint64_t sent = 0;
  uint64_t received = 0;
  bool wrong = false;
  bool ended = false;  // by the peer
  const char* failed = nullptr;
  while (!stop_ && failed == nullptr && !(sent == send_ && ended)) {
    pollfd ready = {fd, POLLIN, 0};
    if (sent < send_) ready.events |= POLLOUT;
    poll(&ready, 1, kTickMs);
    if (sent < send_) {
      const std::span part =
          std::span(buffer).first(std::min<uint64_t>(kChunk, send_ - sent));
      outgoing_.Make(sent, part);
      const ssize_t n = send(fd, part.data(), part.size(), MSG_NOSIGNAL);
      if (n > 0) sent += static_cast<uint64_t>(n);
      if (n < 0 && errno != EAGAIN) failed = "send";
      if (sent == send_) shutdown(fd, SHUT_WR);
    }
    const ssize_t n = recv(fd, buffer.data(), buffer.size(), 0);
    if (n < 0 && errno != EAGAIN) failed = "recv";
    if (n == 0) ended = true;
    if (n > 0) {
      const auto bytes = static_cast<uint64_t>(n);
      wrong |= !incoming_.Check(received, std::span(buffer).first(bytes));
      received += bytes;
    }
  }
  tcp_info info = {};
  socklen_t length = sizeof(info);
  getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length);
  ok_ = ended && !wrong && sent == send_ && received == receive_;
  report_ = "sent " + std::to_string(sent) + ", received " +
            std::to_string(received) + (wrong ? " with WRONG BYTES" : "") +
            ", resent " + std::to_string(info.tcpi_total_retrans);
  if (failed != nullptr) {
    report_ += std::string(", ") + failed + ": " + std::strerror(errno);
  }
}

}  // namespace urnic::testing
