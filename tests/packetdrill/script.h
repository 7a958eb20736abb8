#pragma once

// A packetdrill script as data. README.md has the language.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tests/packetdrill/outcome.h"
#include "transport/base/time.h"
#include "transport/wire/tcp.h"

namespace urnic::packetdrill {

class Cursor;

// When an event happens.
struct When {
  enum class Base : uint8_t { kStart, kPrevious, kAny };
  Base base = Base::kPrevious;
  Duration earliest;
  Duration latest;  // "+.1~+.2"; otherwise the same
  bool is_range = false;
  std::optional<Duration> end;  // "+0...0.2": a call that blocks returns then
};

enum class IpEcn : uint8_t { kUnstated, kNotEct, kEct, kCe };

// Sequence numbers count from the SYN of their direction.
struct Packet {
  bool inbound = false;
  uint8_t flags = 0;
  IpEcn ecn = IpEcn::kUnstated;
  uint32_t seq = 0;
  uint32_t bytes = 0;
  std::optional<uint32_t> ack = {};
  std::optional<uint16_t> window = {};
  bool any_options = false;
  wire::TcpOptions options = {};
};

// A system call. Arguments are text: "3", "SOL_SOCKET", "[1]", "...".
struct Call {
  std::string name;
  std::vector<std::string> args;
  std::optional<int64_t> result;  // unset: any
  std::string error;              // "EAGAIN"; empty: none
};

struct Code {  // %{ .. }%
  std::string text;
};
struct Command {  // of a shell, in back quotes
  std::string text;
};

struct Event {
  int line = 0;
  When when;
  std::variant<Packet, Call, Code, Command> what;
};

struct Options {
  Duration tolerance = Duration::Milliseconds(4);
  int64_t timestamp_tick_us = 0;  // 0: values of time stamps are not compared
  uint16_t mtu = 1500;
  bool ipv6 = false;
  bool strict_segments = false;  // each packet of the script is one segment
  // Ours: times, windows and shifts are compared exactly, and nothing may be
  // left at the end.
  bool strict = false;
};

struct Script {
  Options options;
  std::vector<Event> events;
};

// kNotApplicable: it has something that the interpreter does not know.
Outcome Parse(std::string_view text, Script& out);

// Behind "<" or ">". `inbound` is set already.
Outcome ParsePacket(Cursor& cursor, Packet& out);

}  // namespace urnic::packetdrill
