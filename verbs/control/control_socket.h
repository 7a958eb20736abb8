#pragma once

// The socket of a device that `urnic` talks to, and the thread that serves it
// (verbs/control/control_protocol.h). A thread of its own, asleep until
// somebody connects: the helper's must not wait, and the port's keeper, which
// not every port has, may be held up in a driver for seconds.
//
// Where the socket cannot be made, the debug log says so, and the device works
// without.

#include <poll.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <thread>

namespace urnic::control {

class ControlSocket {
 public:
  // Sends a part of the answer, of any length. False: the asker is gone.
  using Reply = std::function<bool(std::string_view part)>;
  // Called by the thread, one request at a time.
  using Answer =
      std::function<void(std::string_view request, const Reply& reply)>;

  // In `directory`, which outlives it, for `device`.
  ControlSocket(std::string directory, const std::string& device,
                Answer answer);
  // Waits for the request that is being answered. Removes the socket.
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

 private:
  // 0 or an errno.
  int Listen();
  void Run();
  // False: no descriptor is left to accept the one that waits.
  bool ServeOne();
  bool IsTrusted(int fd) const;
  bool Send(int fd, std::string_view part) const;
  // `fd` -1: nothing to read. False: told to stop.
  bool AwaitReadable(int fd, int timeout_ms) const {
    return Await(fd, POLLIN, timeout_ms);
  }
  bool Await(int fd, short events, int timeout_ms) const;

  const std::string directory_;
  const std::string name_;
  const Answer answer_;
  const uid_t owner_;
  int listener_ = -1;
  int stop_fd_ = -1;
  std::thread thread_;
};

}  // namespace urnic::control
