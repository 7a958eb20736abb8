#include "tests/packetdrill/runner.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "tests/packetdrill/assertions.h"
#include "tests/packetdrill/commands.h"

namespace urnic::packetdrill {
namespace {

// "*" in place of a time.
constexpr Duration kLongest = Duration::Seconds(900);

tcp::ConnectionConfig ConfigOf(const Options& options) {
  tcp::ConnectionConfig config;
  const int headers = options.ipv6 ? 60 : 40;
  config.offer.mss = static_cast<uint16_t>(options.mtu - headers);
  if (options.ipv6) config.offer.default_mss = wire::kTcpDefaultMssIpv6;
  // Foreign scripts know neither of them.
  config.offer.urnic = false;
  config.paced = false;
  return config;
}

}  // namespace

Report Runner::Run(std::string_view text) {
  Outcome outcome = Parse(text, script_);
  if (outcome.ok()) outcome = RunEvents();
  return {outcome, skipped_};
}

std::string Runner::Clock(Time time) const {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6f",
                static_cast<double>((time - start_).ns()) / 1e9);
  return text;
}

Outcome Runner::RunEvents() {
  stack_.config = ConfigOf(script_.options);
  start_ = previous_ = stack_.now();
  for (const Event& event : script_.events) {
    Outcome outcome = RunEvent(event);
    if (outcome.ok()) outcome = pending_outcome_;
    if (!outcome.ok()) {
      if (outcome.line == 0) outcome.line = event.line;
      return outcome;
    }
  }
  if (pending_) AdvanceTo(pending_->end + script_.options.tolerance);
  if (pending_) {
    return {Result::kDiffers, pending_->call.name + " does not return",
            pending_->line};
  }
  if (script_.options.strict && !stack_.sent.empty()) {
    return {Result::kDiffers,
            "more was sent: " + Describe(stack_.sent.front(), origin()),
            script_.events.back().line};
  }
  return pending_outcome_;
}

Outcome Runner::RunEvent(const Event& event) {
  const Packet* packet = std::get_if<Packet>(&event.what);
  if (packet != nullptr && !packet->inbound) return Expect(event, *packet);
  if (event.when.base != When::Base::kAny) {
    previous_ =
        (event.when.base == When::Base::kPrevious ? previous_ : start_) +
        event.when.earliest;
  }
  if (const Call* call = std::get_if<Call>(&event.what)) {
    return RunCall(event, *call);
  }
  AdvanceTo(previous_);
  if (packet != nullptr) {
    Receive(*packet);
    PollPending();
    return {};
  }
  if (const Code* code = std::get_if<Code>(&event.what)) {
    return CheckAssertions(code->text, stack_, skipped_);
  }
  return ApplyCommand(std::get<Command>(event.what).text, stack_);
}

Outcome Runner::RunCall(const Event& event, const Call& call) {
  // A program does not make a call while another one blocks.
  if (pending_) AdvanceTo(pending_->end + script_.options.tolerance);
  if (pending_) return Differs(pending_->call.name + " does not return");
  AdvanceTo(previous_);
  bool blocks = false;
  const Outcome outcome = calls_.Run(call, blocks);
  if (!blocks) return outcome;
  if (!event.when.end) return Differs(call.name + " blocks");
  const Time base = previous_ - event.when.earliest;
  pending_ = {call, base + *event.when.end, event.line};
  return {};
}

void Runner::PollPending() {
  if (!pending_) return;
  bool blocks = false;
  const Outcome outcome = calls_.Run(pending_->call, blocks);
  if (blocks) return;
  pending_outcome_ = outcome;
  const Time now = stack_.now();
  const Duration tolerance = script_.options.tolerance;
  if (outcome.ok() &&
      (now < pending_->end - tolerance || now > pending_->end + tolerance)) {
    pending_outcome_ = Differs(pending_->call.name + " returns at " +
                               Clock(now) + ", not at " + Clock(pending_->end));
  }
  pending_outcome_.line = pending_->line;
  pending_.reset();
}

void Runner::AdvanceTo(Time then) {
  while (stack_.Step(then)) PollPending();
}

void Runner::LearnPeersSyn(const Packet& packet) {
  // To a listener, a SYN-ACK means nothing.
  const bool ack = (packet.flags & wire::kTcpAck) != 0;
  if (stack_.connections() == syn_known_of_ ||
      (ack && stack_.peer() == nullptr)) {
    return;
  }
  syn_known_of_ = stack_.connections();
  peers_syn_ = packet.seq;
}

void Runner::Receive(const Packet& packet) {
  const SeqNum ours = stack_.iss();
  wire::TcpSegment segment;
  const bool syn = (packet.flags & wire::kTcpSyn) != 0;
  if (syn) LearnPeersSyn(packet);
  segment.seq = (syn ? kPeersOrigin : peers_iss()) + packet.seq;
  segment.ack = ours + packet.ack.value_or(0);
  segment.flags = packet.flags;
  segment.window = packet.window.value_or(0);
  segment.options = packet.options;
  for (uint8_t i = 0; i < packet.options.sack_count; ++i) {
    const wire::SackBlock& block = packet.options.sack[i];
    segment.options.sack[i] = {ours + block.begin.value(),
                               ours + block.end.value()};
  }
  if (packet.options.timestamps) {
    segment.options.timestamps->echo =
        timestamps_.Live(packet.options.timestamps->echo);
  }
  segment.congestion_experienced = packet.ecn == IpEcn::kCe;
  stack_.Receive(segment, packet.bytes);
}

bool Runner::AwaitSent(Time until) {
  while (stack_.sent.empty()) {
    if (!stack_.Step(until)) return false;
    PollPending();
  }
  return true;
}

Outcome Runner::Expect(const Event& event, const Packet& packet) {
  const When& when = event.when;
  Time earliest;
  Time latest;
  if (when.base == When::Base::kAny) {
    latest = stack_.now() + kLongest;
  } else {
    const Time base = when.base == When::Base::kPrevious ? previous_ : start_;
    const Duration tolerance = script_.options.tolerance;
    earliest = base + when.earliest - tolerance;
    latest = base + when.latest + tolerance;
    previous_ = base + when.earliest;
  }
  const bool fin = (packet.flags & wire::kTcpFin) != 0;
  Part part;
  while (true) {
    if (!AwaitSent(latest)) {
      return Differs("nothing was sent until " + Clock(latest));
    }
    const Sent sent = stack_.sent.front();
    const uint32_t left = packet.bytes - part.offset;
    // A FIN may come behind the data, in a segment of its own.
    part.is_last = sent.bytes == left &&
                   (!fin || sent.bytes == 0 || sent.fields.Has(wire::kTcpFin));
    const bool fits =
        sent.bytes == left || (sent.bytes != 0 && sent.bytes < left &&
                               !script_.options.strict_segments);
    const Outcome outcome = fits ? ExpectPart(packet, part, earliest, latest)
                                 : Differs("sent: " + Describe(sent, origin()) +
                                           ": the length differs");
    if (!outcome.ok()) return outcome;
    if (when.is_range || when.base == When::Base::kAny) previous_ = sent.when;
    part.offset += sent.bytes;
    part.is_first = false;
    if (part.offset == packet.bytes && (part.is_last || !fin)) return {};
  }
}

Outcome Runner::ExpectPart(const Packet& packet, const Part& part,
                           Time earliest, Time latest) {
  const Sent sent = stack_.sent.front();
  stack_.sent.pop_front();
  const std::string what = "sent: " + Describe(sent, origin());
  const std::string difference =
      Difference(packet, part, sent, origin(), script_.options, timestamps_);
  if (!difference.empty()) return Differs(what + ": " + difference);
  if (sent.when < earliest || sent.when > latest) {
    return Differs(what + " at " + Clock(sent.when) + ", not from " +
                   Clock(earliest) + " to " + Clock(latest));
  }
  return {};
}

}  // namespace urnic::packetdrill
