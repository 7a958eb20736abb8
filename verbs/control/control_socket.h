#pragma once

// The control socket of a port, to which `urnic` connects, and the thread that
// serves it (verbs/control/control_protocol.h). The thread sleeps until a
// client connects. It waits for the requests of all clients at the same time,
// so a client that sends no request delays no other. A client that does not
// read its answer delays the others for URNIC_CONTROL_TIMEOUT_SECONDS at most.
// The helper thread cannot serve the socket because it must not wait. The port
// keeper cannot, because not every port has one, and a driver may block it for
// seconds.
//
// If the socket cannot be created, the debug log says so, and the port works
// without it.

#include <sys/types.h>

#include <chrono>
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
  // Answers one request. The thread calls it for one request at a time.
  using Answer =
      std::function<void(std::string_view request, const Reply& reply)>;

  // Creates the socket in `directory`, which outlives this object. `devices`
  // has at least one name: the socket gets the first name, and symbolic links
  // to it get the others.
  ControlSocket(std::string directory, const std::vector<std::string>& devices,
                Answer answer);
  // Waits until the current request has been answered. Removes the socket and
  // the links.
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  // A client that has not sent its request yet, and may do so until `until`.
  struct Client {
    int fd;
    Clock::time_point until;
  };

  // 0 or an errno.
  int Listen();
  void Link() const;
  void Unlink() const;
  void Run();
  // Waits for clients and requests, and answers them. False: the thread must
  // stop.
  bool ServeSome();
  void AcceptSome();
  // Reads and answers the request of a client, which has arrived.
  void Serve(int fd) const;
  bool IsTrusted(int fd) const;
  bool Send(int fd, std::string_view part) const;
  // Waits until there is room to write. False: the thread must stop, or the
  // time is over.
  bool AwaitRoom(int fd) const;

  const std::string directory_;
  std::vector<std::string> names_;  // of the socket, and of links to it
  const Answer answer_;
  const uid_t owner_;
  int listener_ = -1;
  int stop_fd_ = -1;
  std::vector<Client> clients_;   // the oldest first
  Clock::time_point accepts_at_;  // pauses until then: no descriptor was left
  std::thread thread_;
};

}  // namespace urnic::control
