#include "tests/packetdrill/script.h"

#include <cstdlib>
#include <utility>

#include "tests/packetdrill/cursor.h"

namespace urnic::packetdrill {
namespace {

// "--tolerance_usecs=1000". Addresses and the like do not matter here.
Outcome ParseOption(const std::string& text, Options& out) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const int64_t value =
      equals == std::string::npos ? 0 : std::atoll(&text[equals + 1]);
  if (name == "tolerance_usecs") {
    out.tolerance = Duration::Microseconds(value);
  } else if (name == "tcp_ts_tick_usecs") {
    out.timestamp_tick_us = value;
  } else if (name == "mtu") {
    out.mtu = static_cast<uint16_t>(value);
  } else if (name == "ip_version") {
    out.ipv6 = text.substr(equals + 1) == "ipv6";
  } else if (name == "strict_segments") {
    out.strict_segments = true;
  } else if (name == "strict") {
    out.strict = true;
    out.tolerance = Duration();
  } else if (name != "mss" && name != "non_fatal" && name != "local_ip" &&
             name != "remote_ip") {
    return NotApplicable("option --" + name);
  }
  return {};
}

bool ParseWhen(Cursor& cursor, When& out) {
  if (cursor.Take("*")) {
    out.base = When::Base::kAny;
    return true;
  }
  out.base = cursor.Take("+") ? When::Base::kPrevious : When::Base::kStart;
  cursor.SkipInLine();
  const auto first = cursor.TakeSeconds();
  if (!first) return false;
  out.earliest = out.latest = *first;
  cursor.SkipInLine();
  const bool call = cursor.LooksAt("...");
  if (!call && !cursor.LooksAt("~")) return true;
  cursor.Skip(call ? 3 : 1);
  cursor.SkipInLine();
  cursor.Take("+");
  const auto second = cursor.TakeSeconds();
  if (!second) return false;
  if (call) {
    out.end = *second;
  } else {
    out.is_range = true;
    out.latest = *second;
  }
  return true;
}

// What is between the parentheses of a call, divided at the commas.
std::vector<std::string> TakeArguments(Cursor& cursor) {
  std::vector<std::string> args(1);
  int depth = 0;
  bool quoted = false;
  while (!cursor.at_end()) {
    cursor.SkipSpaces();
    const char c = cursor.peek();
    cursor.Skip();
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == '(' || c == '[' || c == '{')) ++depth;
    if (!quoted && (c == ')' || c == ']' || c == '}') && depth-- == 0) break;
    if (c == ',' && depth == 0 && !quoted) {
      args.emplace_back();
    } else {
      args.back() += c;
    }
  }
  if (args.size() == 1 && args[0].empty()) args.clear();
  return args;
}

Outcome ParseCall(Cursor& cursor, Call& out) {
  out.name = cursor.TakeWord();
  cursor.SkipInLine();
  if (out.name.empty() || !cursor.Take("(")) {
    return NotApplicable("the syntax of \"" + out.name + "\"");
  }
  out.args = TakeArguments(cursor);
  cursor.SkipSpaces();
  if (!cursor.Take("=")) return NotApplicable("a call without a result");
  cursor.SkipInLine();
  const std::string result = cursor.TakeWhile(
      [](char c) { return c != ' ' && c != '\t' && c != '\n' && c != '\r'; });
  if (result != "?") out.result = std::strtoll(result.c_str(), nullptr, 0);
  cursor.SkipInLine();
  out.error = cursor.TakeWord();
  if (out.error == "EWOULDBLOCK") out.error = "EAGAIN";
  cursor.SkipInLine();
  if (cursor.Take("(")) cursor.TakeUntil(")");
  return {};
}

Outcome ParseEvent(Cursor& cursor, Event& out) {
  if (!ParseWhen(cursor, out.when)) return NotApplicable("the syntax");
  cursor.SkipSpaces();
  out.line = cursor.line();
  if (cursor.LooksAt("<") || cursor.LooksAt(">")) {
    Packet packet;
    packet.inbound = cursor.peek() == '<';
    cursor.Skip();
    const Outcome outcome = ParsePacket(cursor, packet);
    out.what = packet;
    return outcome;
  }
  if (cursor.Take("`")) {
    out.what = Command{cursor.TakeUntil("`")};
    return {};
  }
  if (cursor.Take("%{")) {
    out.what = Code{cursor.TakeUntil("}%")};
    return {};
  }
  Call call;
  const Outcome outcome = ParseCall(cursor, call);
  out.what = std::move(call);
  return outcome;
}

// "#ifdef STANDARD .. #else .. #endif". Of the systems that scripts name, this
// one behaves as the standard says.
void SkipCondition(Cursor& cursor) {
  const std::string line = cursor.TakeUntil("\n");
  if (line.starts_with("#endif") || line == "#ifdef STANDARD") return;
  while (!cursor.at_end() && !cursor.LooksAt("#endif") &&
         (line.starts_with("#else") || !cursor.LooksAt("#else"))) {
    cursor.TakeUntil("\n");
  }
  cursor.TakeUntil("\n");
}

}  // namespace

Outcome Parse(std::string_view text, Script& out) {
  Cursor cursor(text);
  while (true) {
    cursor.SkipSpaces();
    if (cursor.at_end()) return {};
    Outcome outcome;
    if (cursor.LooksAt("#")) {
      SkipCondition(cursor);
    } else if (cursor.Take("--")) {
      outcome = ParseOption(cursor.TakeWhile([](char c) { return c > ' '; }),
                            out.options);
    } else if (cursor.LooksAt("`")) {
      const int line = cursor.line();
      cursor.Skip();
      out.events.push_back({line, {}, Command{cursor.TakeUntil("`")}});
    } else {
      Event event;
      outcome = ParseEvent(cursor, event);
      out.events.push_back(std::move(event));
    }
    if (!outcome.ok()) {
      outcome.line = cursor.line();
      return outcome;
    }
  }
}

}  // namespace urnic::packetdrill
