#pragma once

// The system calls of scripts: sockets above a Stack.

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tests/packetdrill/outcome.h"
#include "tests/packetdrill/script.h"
#include "tests/packetdrill/stack.h"

namespace urnic::packetdrill {

class Calls {
 public:
  // `stack` outlives this.
  explicit Calls(Stack* stack) : stack_(stack) {}

  // Compares what the call returns with what the script says. `blocks`: it does
  // not return yet; run it again when something has happened.
  Outcome Run(const Call& call, bool& blocks);

 private:
  struct Socket {
    bool nonblocking = false;
    bool listens = false;
    bool connecting = false;  // connect() has not reported its success yet
    bool lingers_zero = false;
    bool no_reads = false;   // shutdown(SHUT_RD)
    bool no_writes = false;  // shutdown(SHUT_WR)
    bool error_reported = false;
    tcp::ConnectionConfig config;
    std::shared_ptr<Peer> peer;
  };
  struct Returned {
    int64_t value = 0;
    std::string error = {};
    bool blocks = false;
    std::string missing = {};  // not empty: not applicable
    std::string wrong = {};    // not empty: an output argument differs
  };
  static Returned Error(const char* name) { return {-1, name}; }
  static Returned Missing(std::string what) {
    return {.missing = std::move(what)};
  }
  static Returned Blocked(const Socket& socket) {
    return socket.nonblocking ? Error("EAGAIN") : Returned{.blocks = true};
  }

  Returned Dispatch(const Call& call);
  Returned Connect(Socket& socket);
  Returned Accept(const Call& call, Socket& listener);
  Returned Write(const Call& call, Socket& socket);
  Returned Read(const Call& call, Socket& socket);
  Returned Close(int fd, Socket& socket);
  Returned Shutdown(const Call& call, Socket& socket);
  Returned SetOption(const Call& call, Socket& socket);
  Returned GetOption(const Call& call, Socket& socket);
  static Returned Control(const Call& call, Socket& socket);
  static Returned Query(const Call& call, const Socket& socket);
  // The error that ended the connection, once; "": none.
  static std::string TakeError(Socket& socket);

  Stack* const stack_;
  std::map<int, Socket> sockets_;
};

}  // namespace urnic::packetdrill
