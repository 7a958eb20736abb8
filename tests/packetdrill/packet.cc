// The packets of scripts.

#include "tests/packetdrill/cursor.h"
#include "tests/packetdrill/script.h"

namespace urnic::packetdrill {
namespace {

using wire::SackBlock;
using wire::TcpOptions;

Outcome ParseFlags(const std::string& text, uint8_t& out) {
  for (const char c : text) {
    switch (c) {
      case 'F':
        out |= wire::kTcpFin;
        break;
      case 'S':
        out |= wire::kTcpSyn;
        break;
      case 'R':
        out |= wire::kTcpRst;
        break;
      case 'P':
        out |= wire::kTcpPsh;
        break;
      case '.':
        out |= wire::kTcpAck;
        break;
      case 'E':
        out |= wire::kTcpEce;
        break;
      case 'W':
        out |= wire::kTcpCwr;
        break;
      case '-':
        break;
      case 'U':
        return NotApplicable("urgent data");
      case 'A':
        return NotApplicable("AccECN");
      default:
        return NotApplicable("packet \"" + text + "\"");
    }
  }
  return {};
}

Outcome ParseEcn(const std::string& text, IpEcn& out) {
  if (text == "ect0") {
    out = IpEcn::kEct;
  } else if (text == "noecn") {
    out = IpEcn::kNotEct;
  } else if (text == "ce") {
    out = IpEcn::kCe;
  } else if (text != "ect1" && text != "ect01") {
    return NotApplicable("IP header \"" + text + "\"");
  }
  return {};
}

// "sack 1:2 3:4"
bool TakeSacks(Cursor& cursor, TcpOptions& out) {
  while (out.sack_count < out.sack.size()) {
    cursor.SkipInLine();
    const auto begin = cursor.TakeNumber();
    if (!begin) break;
    if (!cursor.Take(":")) return false;
    const auto end = cursor.TakeNumber();
    if (!end) return false;
    out.sack[out.sack_count++] = {SeqNum(*begin), SeqNum(*end)};
  }
  return out.sack_count != 0;
}

// "TS val 100 ecr 0"
bool TakeTimestamps(Cursor& cursor, TcpOptions& out) {
  const auto field = [&](std::string_view name) {
    cursor.SkipInLine();
    if (!cursor.Take(name)) return std::optional<uint32_t>();
    cursor.SkipInLine();
    return cursor.TakeNumber();
  };
  const auto value = field("val");
  const auto echo = field("ecr");
  if (!value || !echo) return false;
  out.timestamps = {*value, *echo};
  return true;
}

Outcome ParseOptions(Cursor& cursor, Packet& out) {
  while (true) {
    cursor.SkipInLine();
    if (cursor.Take(">")) return {};
    if (cursor.Take(",")) continue;
    if (cursor.Take("...")) {
      out.any_options = true;
      continue;
    }
    const std::string name = cursor.TakeWord();
    cursor.SkipInLine();
    bool good = name == "nop" || name == "eol";
    if (name == "mss") {
      const auto mss = cursor.TakeNumber();
      good = mss.has_value();
      out.options.mss = static_cast<uint16_t>(mss.value_or(0));
    } else if (name == "wscale") {
      const auto shift = cursor.TakeNumber();
      good = shift.has_value();
      out.options.window_shift = static_cast<uint8_t>(shift.value_or(0));
    } else if (name == "sackOK") {
      good = out.options.sack_permitted = true;
    } else if (name == "TS") {
      good = TakeTimestamps(cursor, out.options);
    } else if (name == "sack") {
      good = TakeSacks(cursor, out.options);
    } else if (name == "FO" || name == "FOEXP") {
      return NotApplicable("TCP Fast Open");
    } else if (name == "md5") {
      return NotApplicable("signatures by MD5");
    }
    if (!good) return NotApplicable("TCP option \"" + name + "\"");
  }
}

}  // namespace

Outcome ParsePacket(Cursor& cursor, Packet& out) {
  cursor.SkipInLine();
  if (cursor.Take("[")) {
    const Outcome outcome = ParseEcn(cursor.TakeUntil("]"), out.ecn);
    if (!outcome.ok()) return outcome;
    cursor.SkipInLine();
  }
  const std::string flags = cursor.TakeWhile([](char c) { return c > ' '; });
  if (flags == "icmp") return NotApplicable("ICMP");
  if (const Outcome outcome = ParseFlags(flags, out.flags); !outcome.ok()) {
    return outcome;
  }
  cursor.SkipInLine();
  const auto begin = cursor.TakeNumber();
  if (!begin || !cursor.Take(":") || !cursor.TakeNumber() ||
      !cursor.Take("(")) {
    return NotApplicable("packet without sequence numbers");
  }
  out.seq = *begin;
  out.bytes = cursor.TakeNumber().value_or(0);
  cursor.Take(")");
  while (true) {
    cursor.SkipInLine();
    if (cursor.peek() == '\n' || cursor.at_end()) return {};
    if (cursor.Take("<")) {
      if (const Outcome outcome = ParseOptions(cursor, out); !outcome.ok()) {
        return outcome;
      }
      continue;
    }
    if (cursor.LooksAt("/udp")) return NotApplicable("TCP in UDP");
    const std::string word = cursor.TakeWord();
    cursor.SkipInLine();
    if (word == "ack") {
      out.ack = cursor.TakeNumber();
    } else if (word == "win") {
      const auto window = cursor.TakeNumber();
      if (window) out.window = static_cast<uint16_t>(*window);
    } else {
      return NotApplicable("\"" + word + "\" in a packet");
    }
  }
}

}  // namespace urnic::packetdrill
