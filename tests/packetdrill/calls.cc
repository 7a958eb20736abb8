#include "tests/packetdrill/calls.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

namespace urnic::packetdrill {
namespace {

using tcp::End;
using tcp::State;

bool Contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

int64_t NumberOf(const std::string& text) {
  return std::strtoll(text.c_str(), nullptr, 0);
}

// The bytes of "{..,msg_iov(2)=[{...,100},{...,5}],..}", or of "[{...,100}]".
int64_t VectorBytes(const std::string& text) {
  const size_t name = text.find("msg_iov(");
  size_t at = text.find("=[", name == std::string::npos ? 0 : name);
  if (at == std::string::npos) at = 0;
  int64_t bytes = 0;
  for (; at < text.size() && text[at] != ']'; ++at) {
    if (text.compare(at, 5, "{...,") == 0) bytes += NumberOf(&text[at + 5]);
  }
  return bytes;
}

// What a call that moves data moves, and its flags.
struct Transfer {
  int64_t bytes = 0;
  std::string flags;
  std::string message;
};
Transfer TransferOf(const Call& call) {
  const auto arg = [&](size_t i) {
    return i < call.args.size() ? call.args[i] : std::string();
  };
  if (call.name == "sendmsg" || call.name == "recvmsg") {
    return {VectorBytes(arg(1)), arg(2), arg(1)};
  }
  if (call.name == "writev" || call.name == "readv") {
    return {VectorBytes(arg(1)), "", ""};
  }
  return {NumberOf(arg(2)), arg(3), arg(1)};
}

// The flag that the interpreter does not know; "": none.
std::string UnknownFlag(std::string flags) {
  static constexpr const char* kKnown[] = {"MSG_NOSIGNAL", "MSG_DONTWAIT",
                                           "MSG_PEEK", "0"};
  for (const char* known : kKnown) {
    const size_t at = flags.find(known);
    if (at != std::string::npos) flags.erase(at, std::string(known).size());
  }
  std::erase(flags, '|');
  return flags;
}

}  // namespace

Outcome Calls::Run(const Call& call, bool& blocks) {
  const Returned returned = Dispatch(call);
  blocks = returned.blocks;
  if (blocks) return {};
  if (!returned.missing.empty()) return NotApplicable(returned.missing);
  if (!returned.wrong.empty())
    return Differs(call.name + ": " + returned.wrong);
  if (!call.result) return {};
  if (*call.result == returned.value && call.error == returned.error) return {};
  if (*call.result == returned.value && returned.error.empty() &&
      *call.result >= 0) {
    return {};
  }
  return Differs(call.name + " returned " + std::to_string(returned.value) +
                 " " + returned.error + ", not " +
                 std::to_string(*call.result) + " " + call.error);
}

Calls::Returned Calls::Dispatch(const Call& call) {
  const std::string& name = call.name;
  if (name == "socket") {
    if (call.args.size() < 2 || !Contains(call.args[1], "SOCK_STREAM")) {
      return Missing("sockets other than TCP's");
    }
    const int64_t fd = call.result.value_or(-1);
    Socket socket;
    socket.nonblocking = Contains(call.args[1], "SOCK_NONBLOCK");
    socket.config = stack_->config;
    sockets_[static_cast<int>(fd)] = std::move(socket);
    stack_->NextConnection();
    return {fd};
  }
  const int fd =
      call.args.empty() ? -1 : static_cast<int>(NumberOf(call.args[0]));
  const auto found = sockets_.find(fd);
  if (found == sockets_.end()) return Missing("system call " + name + "()");
  Socket& socket = found->second;
  if (name == "bind") return {};
  if (name == "listen") {
    socket.listens = true;
    stack_->config = socket.config;
    stack_->Listen();
    return {};
  }
  if (name == "accept") return Accept(call, socket);
  if (name == "connect") return Connect(socket);
  if (name == "close") return Close(fd, socket);
  if (name == "shutdown") return Shutdown(call, socket);
  if (name == "setsockopt") return SetOption(call, socket);
  if (name == "getsockopt") return GetOption(call, socket);
  if (name == "fcntl") return Control(call, socket);
  if (name == "ioctl") return Query(call, socket);
  if (name == "write" || name == "writev" || name == "send" ||
      name == "sendto" || name == "sendmsg") {
    return Write(call, socket);
  }
  if (name == "read" || name == "readv" || name == "recv" ||
      name == "recvfrom" || name == "recvmsg") {
    return Read(call, socket);
  }
  return Missing("system call " + name + "()");
}

std::string Calls::TakeError(Socket& socket) {
  if (socket.peer == nullptr || socket.error_reported) return "";
  std::string error;
  switch (socket.peer->connection.ended()) {
    case End::kRefused:
      error = "ECONNREFUSED";
      break;
    case End::kReset:
      error = "ECONNRESET";
      break;
    case End::kTimedOut:
      error = "ETIMEDOUT";
      break;
    default:
      return "";
  }
  socket.error_reported = true;
  return error;
}

Calls::Returned Calls::Connect(Socket& socket) {
  if (socket.peer == nullptr) {
    stack_->config = socket.config;
    socket.peer = stack_->Connect();
    socket.connecting = true;
    return socket.nonblocking ? Error("EINPROGRESS") : Returned{.blocks = true};
  }
  const State state = socket.peer->connection.state();
  if (state == State::kSynSent || state == State::kSynReceived) {
    return socket.nonblocking ? Error("EALREADY") : Returned{.blocks = true};
  }
  const std::string error = TakeError(socket);
  if (!error.empty()) return Error(error.c_str());
  if (!std::exchange(socket.connecting, false)) return Error("EISCONN");
  return {};
}

Calls::Returned Calls::Accept(const Call& call, Socket& listener) {
  std::shared_ptr<Peer> peer = stack_->Accept();
  if (peer == nullptr) return Blocked(listener);
  const int64_t fd = call.result.value_or(-1);
  if (fd < 0) return {.wrong = "there is a connection"};
  Socket socket;
  socket.config = listener.config;
  socket.peer = std::move(peer);
  sockets_[static_cast<int>(fd)] = std::move(socket);
  return {fd};
}

Calls::Returned Calls::Write(const Call& call, Socket& socket) {
  const Transfer transfer = TransferOf(call);
  const std::string unknown = UnknownFlag(transfer.flags);
  if (!unknown.empty()) return Missing(unknown);
  if (transfer.message == "NULL") return Missing("bad addresses");
  if (socket.peer == nullptr) return Missing("a write without a connection");
  const std::string error = TakeError(socket);
  if (!error.empty()) return Error(error.c_str());
  tcp::Connection& connection = socket.peer->connection;
  if (socket.no_writes || connection.ended() != End::kNone) {
    return Error("EPIPE");
  }
  if (connection.state() == State::kSynSent) return Blocked(socket);
  socket.peer->stream.written += static_cast<uint64_t>(transfer.bytes);
  stack_->Flush();
  return {transfer.bytes};
}

Calls::Returned Calls::Read(const Call& call, Socket& socket) {
  const Transfer transfer = TransferOf(call);
  const std::string unknown = UnknownFlag(transfer.flags);
  if (!unknown.empty()) return Missing(unknown);
  if (Contains(transfer.message, "cmsg")) return Missing("control messages");
  if (transfer.message == "NULL") return Missing("bad addresses");
  if (socket.peer == nullptr) return Missing("a read without a connection");
  Stream& stream = socket.peer->stream;
  if (stream.unread != 0) {
    const uint64_t bytes =
        std::min(stream.unread, static_cast<uint64_t>(transfer.bytes));
    if (!Contains(transfer.flags, "MSG_PEEK")) stream.unread -= bytes;
    return {static_cast<int64_t>(bytes)};
  }
  const std::string error = TakeError(socket);
  if (!error.empty()) return Error(error.c_str());
  const tcp::Connection& connection = socket.peer->connection;
  if (socket.no_reads || connection.peer_closed() ||
      connection.ended() != End::kNone) {
    return {};
  }
  return Blocked(socket);
}

Calls::Returned Calls::Close(int fd, Socket& socket) {
  if (socket.listens) stack_->StopListening();
  const std::shared_ptr<Peer> peer = socket.peer;
  const bool lingers_zero = socket.lingers_zero;
  sockets_.erase(fd);
  if (peer == nullptr) return {};
  // The peer must learn that its data were not read.
  if (lingers_zero || peer->stream.unread != 0) {
    peer->connection.Abort();
  } else {
    peer->stream.orphaned = true;
    peer->connection.Close();
  }
  stack_->Flush();
  return {};
}

Calls::Returned Calls::Shutdown(const Call& call, Socket& socket) {
  const std::string& how = call.args[1];
  if (socket.peer == nullptr) return Error("ENOTCONN");
  tcp::Connection& connection = socket.peer->connection;
  if (connection.ended() != End::kNone) return Error("ENOTCONN");
  if (how != "SHUT_WR") socket.no_reads = true;
  if (how != "SHUT_RD") {
    socket.no_writes = true;
    connection.Close();
    stack_->Flush();
  }
  return {};
}

Calls::Returned Calls::Control(const Call& call, Socket& socket) {
  if (call.args[1] == "F_GETFL") return {socket.nonblocking ? 0x802 : 2};
  if (call.args[1] != "F_SETFL") return Missing("fcntl " + call.args[1]);
  socket.nonblocking = Contains(call.args[2], "O_NONBLOCK");
  return {};
}

Calls::Returned Calls::Query(const Call& call, const Socket& socket) {
  if (socket.peer == nullptr) return Missing("ioctl without a connection");
  const Stream& stream = socket.peer->stream;
  uint64_t value = 0;
  if (call.args[1] == "SIOCINQ") {
    value = stream.unread;
  } else if (call.args[1] == "SIOCOUTQ") {
    value = stream.written - stream.acked;
  } else {
    return Missing("ioctl " + call.args[1]);
  }
  const int64_t expected = NumberOf(call.args[2].substr(1));
  if (expected != static_cast<int64_t>(value)) {
    return {.wrong = call.args[1] + " is " + std::to_string(value) + ", not " +
                     std::to_string(expected)};
  }
  return {};
}

}  // namespace urnic::packetdrill
