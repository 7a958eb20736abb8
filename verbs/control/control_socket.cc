#include "verbs/control/control_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/guest/engine_thread.h"
#include "verbs/control/control_protocol.h"
#include "verbs/control/debug_log.h"
#include "verbs/libc/high_fd.h"

namespace urnic::control {

namespace {

// The pause before the next accept() if the program is out of descriptors.
constexpr std::chrono::seconds kPause{1};
// How long a client may take to send its request, and the limit of such
// clients.
constexpr std::chrono::seconds kPatience{URNIC_CONTROL_TIMEOUT_SECONDS};
constexpr size_t kClientsMax = 16;

}  // namespace

ControlSocket::ControlSocket(std::string directory,
                             const std::vector<std::string>& devices,
                             Answer answer)
    : directory_(std::move(directory)),
      answer_(std::move(answer)),
      owner_(geteuid()) {
  for (const std::string& device : devices) {
    names_.push_back(device + URNIC_CONTROL_SUFFIX);
  }
  const auto give_up = [this](const char* reason) {
    DebugLog(absl::StrCat(directory_, "/", names_.front(), ": ", reason,
                          "; urnic cannot ask or change this device"));
  };
  if (const int error = Listen()) {
    give_up(std::strerror(error));
    return;
  }
  // An engine thread, because it may run the engine when it releases the token.
  auto thread = StartEngineThread("urnic-control", [this] { Run(); });
  if (thread.has_value()) {
    thread_ = *std::move(thread);
    Link();
  } else {
    Unlink();
    give_up("cannot create a thread");
  }
}

ControlSocket::~ControlSocket() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    while (write(stop_fd_, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    thread_.join();
    Unlink();
  }
  if (listener_ >= 0) close(listener_);
  if (stop_fd_ >= 0) close(stop_fd_);
}

void ControlSocket::Link() const {
  for (size_t i = 1; i < names_.size(); ++i) {
    const std::string path = directory_ + "/" + names_[i];
    if (symlink(names_.front().c_str(), path.c_str()) != 0) {
      DebugLog(absl::StrCat(path, ": ", std::strerror(errno)));
    }
  }
}

void ControlSocket::Unlink() const {
  for (const std::string& name : names_) {
    unlink((directory_ + "/" + name).c_str());
  }
}

int ControlSocket::Listen() {
  stop_fd_ = urnic_move_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  listener_ = urnic_move_fd_high(
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (stop_fd_ < 0 || listener_ < 0) return errno;
  // Names the file through the directory's descriptor, because a socket address
  // holds only 107 characters.
  const int directory = open(directory_.c_str(), O_PATH | O_CLOEXEC);
  if (directory < 0) return errno;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof(address.sun_path),
                "/proc/thread-self/fd/%d/%s", directory,
                names_.front().c_str());
  // bind() gives the file the socket's mode, so other users can never open it.
  const bool done = fchmod(listener_, 0600) == 0 &&
                    bind(listener_, reinterpret_cast<sockaddr*>(&address),
                         sizeof(address)) == 0 &&
                    listen(listener_, SOMAXCONN) == 0;
  const int error = done ? 0 : errno;
  close(directory);
  return error;
}

void ControlSocket::Run() {
  while (ServeSome()) {
  }
  for (const Client& client : clients_) close(client.fd);
}

bool ControlSocket::ServeSome() {
  const auto now = Clock::now();
  const bool accepts = now >= accepts_at_;
  std::vector<pollfd> fds = {{stop_fd_, POLLIN, 0},
                             {accepts ? listener_ : -1, POLLIN, 0}};
  auto wakes_at = accepts ? Clock::time_point::max() : accepts_at_;
  for (const Client& client : clients_) {
    fds.push_back({client.fd, POLLIN, 0});
    wakes_at = std::min(wakes_at, client.until);
  }
  int timeout_ms = -1;
  if (wakes_at != Clock::time_point::max()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        std::max(wakes_at - now, Clock::duration::zero()));
    timeout_ms = static_cast<int>(left.count());
  }
  if (poll(fds.data(), fds.size(), timeout_ms) < 0) return true;
  if (fds[0].revents != 0) return false;

  std::vector<Client> left;
  for (size_t i = 0; i != clients_.size(); ++i) {
    const Client& client = clients_[i];
    const bool asks = fds[2 + i].revents != 0;
    if (!asks && Clock::now() < client.until) {
      left.push_back(client);
      continue;
    }
    if (asks) Serve(client.fd);
    close(client.fd);
  }
  clients_ = std::move(left);
  if (fds[1].revents != 0) AcceptSome();
  return true;
}

// If there are too many clients without a request, a new one replaces the
// oldest. Only half of them are replaced per call, so each client has the time
// to send its request, which usually comes right after it has connected.
void ControlSocket::AcceptSome() {
  for (size_t i = 0; i != kClientsMax / 2; ++i) {
    const int fd = urnic_move_fd_high(
        accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd < 0) {
      // A waiting client stays in the queue; without a pause, accept() would
      // fail again immediately.
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
          errno == ENOBUFS) {
        accepts_at_ = Clock::now() + kPause;
      }
      return;
    }
    if (!IsTrusted(fd)) {
      close(fd);
      continue;
    }
    if (clients_.size() == kClientsMax) {
      close(clients_.front().fd);
      clients_.erase(clients_.begin());
    }
    clients_.push_back({fd, Clock::now() + kPatience});
  }
}

void ControlSocket::Serve(int fd) const {
  char request[URNIC_CONTROL_REQUEST_MAX];
  const ssize_t bytes = recv(fd, request, sizeof(request), 0);
  if (bytes <= 0) return;
  answer_({request, static_cast<size_t>(bytes)},
          [&](std::string_view part) { return Send(fd, part); });
}

bool ControlSocket::AwaitRoom(int fd) const {
  pollfd fds[] = {{stop_fd_, POLLIN, 0}, {fd, POLLOUT, 0}};
  while (poll(fds, 2, URNIC_CONTROL_TIMEOUT_SECONDS * 1000) < 0 &&
         errno == EINTR) {
  }
  return fds[0].revents == 0 && fds[1].revents == POLLOUT;
}

bool ControlSocket::IsTrusted(int fd) const {
  ucred peer = {};
  socklen_t bytes = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
         (peer.uid == 0 || peer.uid == owner_);
}

bool ControlSocket::Send(int fd, std::string_view part) const {
  while (!part.empty()) {
    const auto packet = part.substr(0, URNIC_CONTROL_ANSWER_MAX);
    if (send(fd, packet.data(), packet.size(), MSG_NOSIGNAL) >= 0) {
      part.remove_prefix(packet.size());
      continue;
    }
    // The client reads slowly, or has disconnected.
    if (errno != EAGAIN || !AwaitRoom(fd)) return false;
  }
  return true;
}

}  // namespace urnic::control
