#include "tests/packetdrill/match.h"

#include <cstdlib>

namespace urnic::packetdrill {
namespace {

using wire::TcpFields;
using wire::TcpOptions;

// PSH is not compared: the sender sets it where it wants.
constexpr uint8_t kComparedFlags = wire::kTcpFin | wire::kTcpSyn |
                                   wire::kTcpRst | wire::kTcpAck |
                                   wire::kTcpEce | wire::kTcpCwr;

uint32_t Count(SeqNum number, SeqNum origin) {
  return static_cast<uint32_t>(number - origin);
}

std::string FlagLetters(uint8_t flags) {
  std::string text;
  const auto add = [&](uint8_t flag, char letter) {
    if ((flags & flag) != 0) text += letter;
  };
  add(wire::kTcpSyn, 'S');
  add(wire::kTcpFin, 'F');
  add(wire::kTcpRst, 'R');
  add(wire::kTcpPsh, 'P');
  add(wire::kTcpEce, 'E');
  add(wire::kTcpCwr, 'W');
  add(wire::kTcpAck, '.');
  return text.empty() ? "-" : text;
}

// What a SYN offers. A shift says how large our buffers are, not how we
// behave.
std::string SynDifference(const TcpOptions& expected, const TcpOptions& sent,
                          bool strict) {
  if (expected.mss != sent.mss) return "the MSS differs";
  if (expected.sack_permitted != sent.sack_permitted) return "sackOK differs";
  if (expected.timestamps.has_value() != sent.timestamps.has_value()) {
    return "TS differs";
  }
  if (expected.window_shift.has_value() != sent.window_shift.has_value() ||
      (strict && expected.window_shift != sent.window_shift)) {
    return "wscale differs";
  }
  return "";
}

std::string OptionDifference(const TcpOptions& expected, const TcpOptions& sent,
                             const Origin& origin) {
  if (expected.timestamps.has_value() != sent.timestamps.has_value()) {
    return "TS differs";
  }
  if (expected.sack_count != sent.sack_count) return "sack differs";
  for (uint8_t i = 0; i < expected.sack_count; ++i) {
    if (expected.sack[i].begin.value() !=
            Count(sent.sack[i].begin, origin.peers) ||
        expected.sack[i].end.value() != Count(sent.sack[i].end, origin.peers)) {
      return "sack differs";
    }
  }
  return "";
}

}  // namespace

uint32_t Timestamps::Live(uint32_t script) const {
  const auto found = live_.find(script);
  if (found != live_.end()) return found->second;
  return first_ ? first_->live + (script - first_->script) : script;
}

bool Timestamps::OnSent(uint32_t script, uint32_t live, int64_t tick_us,
                        Duration tolerance) {
  constexpr int64_t kOurTickUs = tcp::TimestampClock::kTickNs / 1000;
  live_[script] = live;
  if (!first_) first_ = {script, live};
  if (tick_us == 0) return true;
  const int64_t expected =
      static_cast<int32_t>(script - first_->script) * tick_us;
  const int64_t actual = static_cast<int32_t>(live - first_->live) * kOurTickUs;
  // Both ends round to a tick.
  return std::abs(actual - expected) <=
         tolerance.ns() / 1000 + (tolerance.ns() == 0 ? 0 : tick_us);
}

std::string Difference(const Packet& expected, const Part& part,
                       const Sent& sent, const Origin& origin,
                       const Options& options, Timestamps& timestamps) {
  const TcpFields& fields = sent.fields;
  uint8_t compared = kComparedFlags;
  // Only one part has the FIN, and only the first one the CWR.
  if (!part.is_last) compared &= static_cast<uint8_t>(~wire::kTcpFin);
  if (!part.is_first) compared &= static_cast<uint8_t>(~wire::kTcpCwr);
  if ((expected.flags & compared) != (fields.flags & compared)) {
    return "the flags differ";
  }
  // Of a SYN, the script cannot know it.
  const bool syn = (expected.flags & wire::kTcpSyn) != 0;
  if (!syn && expected.seq + part.offset != Count(fields.seq, origin.ours)) {
    return "the sequence number differs";
  }
  const uint32_t ack =
      Count(fields.ack, origin.peers) + (syn ? origin.peers_syn : 0);
  if (expected.ack && *expected.ack != ack) {
    return "the acknowledgement number differs";
  }
  if (expected.window &&
      (options.strict ? *expected.window != fields.window
                      : (*expected.window == 0) != (fields.window == 0))) {
    return "the window differs";
  }
  if (expected.ecn != IpEcn::kUnstated &&
      sent.ect != (expected.ecn == IpEcn::kEct)) {
    return "ECT differs";
  }
  if (expected.any_options) return "";
  const std::string option =
      syn ? SynDifference(expected.options, fields.options, options.strict)
          : OptionDifference(expected.options, fields.options, origin);
  if (!option.empty()) return option;
  if (!expected.options.timestamps) return "";
  if (expected.options.timestamps->echo != fields.options.timestamps->echo) {
    return "TS ecr differs";
  }
  return timestamps.OnSent(expected.options.timestamps->value,
                           fields.options.timestamps->value,
                           options.timestamp_tick_us, options.tolerance)
             ? ""
             : "TS val differs";
}

std::string Describe(const Sent& sent, const Origin& origin) {
  const TcpFields& fields = sent.fields;
  const uint32_t seq = Count(fields.seq, origin.ours);
  std::string text = FlagLetters(fields.flags) + " " + std::to_string(seq) +
                     ":" + std::to_string(seq + sent.bytes) + "(" +
                     std::to_string(sent.bytes) + ")";
  if (fields.Has(wire::kTcpAck)) {
    text += " ack " + std::to_string(Count(fields.ack, origin.peers));
  }
  text += " win " + std::to_string(fields.window);
  const TcpOptions& options = fields.options;
  std::string list;
  if (options.mss) list += ",mss " + std::to_string(*options.mss);
  if (options.sack_permitted) list += ",sackOK";
  if (options.timestamps) {
    list += ",TS val " + std::to_string(options.timestamps->value) + " ecr " +
            std::to_string(options.timestamps->echo);
  }
  if (options.window_shift) {
    list += ",wscale " + std::to_string(*options.window_shift);
  }
  if (options.sack_count != 0) list += ",sack";
  for (const wire::SackBlock& block : options.sacks()) {
    list += " " + std::to_string(Count(block.begin, origin.peers)) + ":" +
            std::to_string(Count(block.end, origin.peers));
  }
  if (!list.empty()) text += " <" + list.substr(1) + ">";
  return text;
}

}  // namespace urnic::packetdrill
