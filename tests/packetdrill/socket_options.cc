// setsockopt() and getsockopt().

#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/packetdrill/calls.h"

namespace urnic::packetdrill {
namespace {

// They change nothing here. Buffers of programs are not part of our TCP, and
// it does not wait to fill segments (Nagle).
constexpr std::string_view kIgnored[] = {
    "SO_REUSEADDR",    "SO_SNDBUF", "SO_MARK",          "TCP_NODELAY",
    "IP_MTU_DISCOVER", "IP_TOS",    "IP_FREEBIND",      "TCP_QUICKACK",
    "SO_REUSEPORT",    "IP_TTL",    "IPV6_TCLASS",      "SO_PRIORITY",
    "TCP_LOG",         "SO_DEBUG",  "IPV6_UNICAST_HOPS"};

// "[5]", "5", "{onoff=1,linger=0}"
int64_t FirstNumber(const std::string& text) {
  const size_t digit = text.find_first_of("0123456789");
  return digit == std::string::npos ? 0
                                    : std::strtoll(&text[digit], nullptr, 0);
}

bool IsNumber(const std::string& text) {
  return text.find_first_not_of("[]0123456789") == std::string::npos;
}

}  // namespace

Calls::Returned Calls::SetOption(const Call& call, Socket& socket) {
  if (call.args.size() < 4) return Missing("setsockopt");
  const std::string& name = call.args[2];
  const std::string& text = call.args[3];
  for (const std::string_view ignored : kIgnored) {
    if (name == ignored) return {};
  }
  const int64_t value = FirstNumber(text);
  if (name == "SO_LINGER") {
    const size_t linger = text.find("linger=");
    socket.lingers_zero = text.find("onoff=1") != std::string::npos &&
                          linger != std::string::npos &&
                          FirstNumber(text.substr(linger)) == 0;
    return {};
  }
  if (socket.peer != nullptr) {
    // A tcp::Connection is configured when it begins.
    return Missing(name + " of a connection that exists");
  }
  tcp::ConnectionConfig& config = socket.config;
  if (name == "TCP_MAXSEG") {
    config.offer.mss = static_cast<uint16_t>(value);
  } else if (name == "SO_RCVBUF") {
    config.window_bytes = static_cast<uint32_t>(value);
  } else if (name == "SO_KEEPALIVE") {
    config.keepalive_idle = value != 0 ? Duration::Seconds(7200) : Duration();
  } else if (name == "TCP_KEEPIDLE") {
    config.keepalive_idle = Duration::Seconds(value);
  } else if (name == "TCP_KEEPINTVL") {
    config.keepalive_interval = Duration::Seconds(value);
  } else if (name == "TCP_KEEPCNT") {
    config.keepalive_probes = static_cast<uint8_t>(value);
  } else if (name == "TCP_USER_TIMEOUT") {
    config.user_timeout = Duration::Milliseconds(value);
  } else if (name == "TCP_KEEPINIT") {
    config.syn_timeout = Duration::Seconds(value);
  } else {
    return Missing("socket option " + name);
  }
  // Of the connections to come.
  if (socket.listens) stack_->config = config;
  return {};
}

Calls::Returned Calls::GetOption(const Call& call, Socket& socket) {
  if (call.args.size() < 4) return Missing("getsockopt");
  const std::string& name = call.args[2];
  const std::string& expected = call.args[3];
  std::string actual;
  if (name == "SO_ERROR") {
    const std::string error = TakeError(socket);
    actual = "[" + (error.empty() ? "0" : error) + "]";
  } else if (name == "TCP_MAXSEG" && IsNumber(expected)) {
    const uint32_t mss = socket.peer != nullptr ? socket.peer->connection.mss()
                                                : socket.config.offer.mss;
    actual = "[" + std::to_string(mss) + "]";
  } else if (name == "SO_RCVBUF" || name == "SO_SNDBUF") {
    // Kernels change the size that was asked for, each in another way.
    return {};
  } else {
    return Missing("socket option " + name);
  }
  if (actual != expected) {
    return {.wrong = name + " is " + actual + ", not " + expected};
  }
  return {};
}

}  // namespace urnic::packetdrill
