#pragma once

// The socket of a port that `urnic` talks to, and the thread that serves it
// (verbs/control/control_protocol.h). The thread sleeps until a client
// connects. The helper thread cannot do this because it must not wait. The port
// keeper cannot do it because not every port has one, and a driver may block it
// for seconds.
//
// If the socket cannot be created, the debug log says so, and the port works
// without it.

#include <poll.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace urnic::control {

class ControlSocket {
 public:
  // Sends a part of the answer, of any length. False: the client has
  // disconnected.
  using Reply = std::function<bool(std::string_view part)>;
  // Called by the thread, one request at a time.
  using Answer =
      std::function<void(std::string_view request, const Reply& reply)>;

  // Creates the socket in `directory`, which outlives this object. `devices`:
  // at least one; the socket has the name of the first, and links to it have
  // those of the others.
  ControlSocket(std::string directory, const std::vector<std::string>& devices,
                Answer answer);
  // Waits until the current request has been answered. Removes the socket and
  // the links.
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

 private:
  // 0 or an errno.
  int Listen();
  void Link() const;
  void Unlink() const;
  void Run();
  // False: no descriptor is left to accept the waiting client.
  bool ServeOne();
  bool IsTrusted(int fd) const;
  bool Send(int fd, std::string_view part) const;
  // `fd` -1: nothing to read. False: the thread is to stop.
  bool AwaitReadable(int fd, int timeout_ms) const {
    return Await(fd, POLLIN, timeout_ms);
  }
  bool Await(int fd, short events, int timeout_ms) const;

  const std::string directory_;
  std::vector<std::string> names_;  // of the socket, and of links to it
  const Answer answer_;
  const uid_t owner_;
  int listener_ = -1;
  int stop_fd_ = -1;
  std::thread thread_;
};

}  // namespace urnic::control
