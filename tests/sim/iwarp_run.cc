#include "tests/sim/iwarp_run.h"

#include <utility>

namespace urnic::sim {
namespace {

using iwarp::Event;
using iwarp_wire::Damage;

constexpr uint64_t kLoggedEvery = 4;
constexpr NumberKey kKey = {{0x1111222233334444, 0x5555666677778888}};
// Longer than any back-off after the faults, and than all time-outs but that of
// a peer that does not answer.
constexpr Duration kRest = Duration::Seconds(90);
constexpr Duration kEndRest = Duration::Seconds(200);

}  // namespace

IwarpRun::IwarpRun(uint64_t seed, bool logs)
    : random_(seed), challenges_(kKey, 1000) {
  for (int i = 0; i < 2; ++i) {
    MakeEnd(i);
    // Not drawn: with or without it, a seed is the same run.
    if (logs && seed % kLoggedEvery == 0)
      end(i).LogInputs(InputLog::kBytesMin << seed / kLoggedEvery % 5);
  }
}

void IwarpRun::MakeEnd(int i) {
  IwarpEnd::Hooks hooks;
  hooks.send = [this, i](const wire::TcpFields& fields,
                         std::span<const uint8_t> payload,
                         bool ect) { Send(i, fields, payload, ect); };
  hooks.on_event = [this, i](Event event) { OnEvent(i, event); };
  hooks.admit = [this, i](const wire::TcpSegment& segment) {
    return Admit(i, segment);
  };
  hooks.refuse = [this, i](const wire::TcpSegment& segment) {
    Refuse(i, segment);
  };
  ends_[static_cast<size_t>(i)] = std::make_unique<IwarpEnd>(
      world_, random_, i, random_.OneIn(3), std::move(hooks));
}

IwarpStats IwarpRun::Run() {
  for (uint64_t count = 1 + random_.Below(3); count != 0; --count) {
    ConnectOnce();
    if (retry_) ++count;
  }
  stats_.events = world_.events_run();
  for (int i = 0; i < 2; ++i) stats_.replayed += end(i).replayed();
  return stats_;
}

template <typename F>
void IwarpRun::After(uint64_t max_ns, F&& f) {
  const auto delay =
      Duration::Nanoseconds(static_cast<int64_t>(random_.Below(max_ns + 1)));
  world_.After(delay, [this, at = connection_, f] {
    if (at == connection_) f();
  });
}

// --- One connection ----------------------------------------------------------

void IwarpRun::ConnectOnce() {
  ++connection_;
  port_ = static_cast<uint16_t>(IwarpPlan::kListenPort + connection_);
  plan_.emplace(random_, port_, std::exchange(retry_, false));
  damaged_ = troubled_ = ending_ = false;
  connected_ = requested_ = {};
  end_events_ = {};
  rules_ = {};
  MakeLinks();
  half_open_.emplace(kKey, plan_->cookies ? 1 : 8, &challenges_);
  for (int i = 0; i < 2; ++i) {
    flows_[static_cast<size_t>(i)].emplace(end(i), end(1 - i));
  }
  for (int i = 0; i < 2; ++i) {
    programs_[static_cast<size_t>(i)].emplace(random_, end(i), flow(i),
                                              flow(1 - i));
  }
  for (int i = 0; i < 2; ++i) {
    program(i).Meet(program(1 - i));
    end(i).Begin(plan_->ends[static_cast<size_t>(i)], flow(i), flow(1 - i));
    program(i).PostReceives();
  }
  end(plan_->initiator).Connect();
  if (plan_->ends_early) After(20'000'000, [this] { EndIt(); });

  WaitForRest(kRest, "the connection does not come to rest");
  CheckWork();
  if (!ending_) EndIt();
  WaitForRest(kEndRest, "the end of the connection takes too long");
  for (int i = 0; i < 2; ++i) {
    if (end(i).done()) continue;
    // A RST may have been lost. A FIN is sent until it arrives.
    Require(end(1 - i).endpoint().connection().ended() == tcp::End::kAborted,
            "an end does not notice that the other has closed");
    end(i).Disconnect();
  }
  WaitForRest(kEndRest, "the end of the connection takes too long");
  CheckEnds();
  for (int i = 0; i < 2; ++i) {
    end(i).memory().host().Restore();
    programs_[static_cast<size_t>(i)].reset();
  }
}

void IwarpRun::MakeLinks() {
  for (int from = 0; from < 2; ++from) {
    links_.push_back(std::make_unique<Link>(
        world_, random_.Next(), plan_->links[static_cast<size_t>(from)],
        [this, from](Link::Packet packet) {
          OnArrival(from, std::move(packet));
        }));
    world_.After(plan_->faults,
                 [made = links_.back().get()] { made->StopFaults(); });
  }
}

// --- Segments ----------------------------------------------------------------

void IwarpRun::Send(int from, const wire::TcpFields& fields,
                    std::span<const uint8_t> payload, bool ect) {
  rule(from).OnSent(fields, payload);
  rule(1 - from).OnAckSent(fields);
  link(from).Send(iwarp_wire::Encode(from, fields, payload, ect));
}

void IwarpRun::OnArrival(int from, Link::Packet packet) {
  const Damage damage = iwarp_wire::DamageOf(packet);
  if (damage == Damage::kHead) return;
  if (damage == Damage::kPayload) {
    // The frames of MPA have no CRC.
    if (!plan_->damages || !connected_[0] || !connected_[1]) return;
    damaged_ = true;
    AllowFailure();
    for (int i = 0; i < 2; ++i) flow(i).OnDamage();
  }
  end(1 - from).Arrive(std::move(packet), damage,
                       plan_->marks && random_.OneIn(20));
}

// False: it is not for the endpoint of this connection.
bool IwarpRun::Admit(int to, const wire::TcpSegment& segment) {
  const tcp::ConnectionConfig& config = end(to).choice().tcp;
  if (segment.src_port != config.remote_port ||
      segment.dst_port != config.local_port) {
    Refuse(to, segment);
    return false;
  }
  rule(1 - to).OnArrived(segment);
  rule(to).OnAckArrived(segment);
  return end(to).opened() || Listen(segment);
}

bool IwarpRun::Listen(const wire::TcpSegment& segment) {
  const int to = plan_->listener();
  const tcp::FourTuple tuple = {{}, {}, IwarpPlan::kListenPort, port_};
  const tcp::ConnectionConfig& config = end(to).choice().tcp;
  if (segment.Has(wire::kTcpSyn)) {
    Send(to,
         half_open_->OnSyn(tuple, segment, config.offer, config.window_bytes,
                           world_.now()),
         {}, false);
    ServeListener();
    return false;
  }
  const auto outcome = half_open_->OnSegment(tuple, segment, world_.now());
  if (outcome.answer) {
    link(to).Send(iwarp_wire::Encode(to, *outcome.answer, {}, false));
  }
  if (!outcome.accepted) return false;
  rule(to).Start(outcome.accepted->iss);
  end(to).Open(*outcome.accepted);
  return true;
}

void IwarpRun::ServeListener() {
  while (const auto repeat = half_open_->OnTimer(world_.now())) {
    Send(plan_->listener(), repeat->fields, {}, false);
  }
  const Time due = half_open_->NextDeadline();
  if (due.IsInfinite()) return;
  world_.At(due, [this, at = connection_] {
    if (at == connection_) ServeListener();
  });
}

// A segment for which there is no connection.
void IwarpRun::Refuse(int from, const wire::TcpSegment& segment) {
  const auto reset = tcp::ResetFor(segment);
  if (!reset) return;
  link(from).Send(iwarp_wire::Encode(from, *reset, {}, false));
}

// --- Programs ----------------------------------------------------------------

void IwarpRun::OnEvent(int i, Event event) {
  const auto at = static_cast<size_t>(i);
  switch (event) {
    case Event::kRequest:
      requested_[at] = true;
      // The program takes its time.
      return After(random_.OneIn(2) ? 0 : 5'000'000, [this, i] {
        plan_->rejects ? end(i).Reject() : end(i).Accept();
      });
    case Event::kConnected:
      Require(!connected_[at] && end_events_[at] == 0,
              "an end is connected twice, or after its end");
      connected_[at] = true;
      return OnConnected(i);
    default:
      Require(++end_events_[at] == 1, "the end is reported twice");
      retry_ |= event == Event::kRetryRevision1;
      if (event == Event::kDisconnected) {
        Require(connected_[at], "an end was never connected");
        Require(ending_ || damaged_ || troubled_,
                "the connection ends without a reason");
      } else {
        Require(!connected_[at], "an end that was connected fails to connect");
        Require(plan_->may_fail_to_connect || ending_,
                "the set-up fails without a reason");
      }
      // The other end notices.
      AllowFailure();
      ending_ = true;
  }
}

void IwarpRun::OnConnected(int i) {
  const mpa::Agreement& agreement = end(i).endpoint().set_up().agreement();
  const bool merged = end(i).endpoint().connection().peer_is_urnic();
  program(i).Start(
      merged ? rdmap::ImmediateData::kMerged : end(i).choice().config.immediate,
      agreement.ord);
  if (i == plan_->initiator) ++stats_.connections;
  After(0, [this, i, greets = i == plan_->initiator] {
    if (end(i).broken()) return;
    // Without RTR, the responder waits for the initiator's first message.
    if (greets) program(i).Greet();
    Step(i, plan_->steps);
  });
}

void IwarpRun::Step(int i, uint64_t left) {
  if (left == 0 || end(i).broken()) return;
  program(i).Act();
  if (i == plan_->troubled && left < plan_->steps / 2 &&
      plan_->trouble != IwarpTrouble::kNone &&
      program(i).MakeTrouble(plan_->trouble)) {
    plan_->trouble = IwarpTrouble::kNone;
    troubled_ = true;
  }
  if (random_.OneIn(20)) {
    end(i).OnTooBig(static_cast<uint32_t>(340 + random_.Below(3000)));
  }
  end(i).Pump();
  After(static_cast<uint64_t>(plan_->pace.ns()),
        [this, i, left] { Step(i, left - 1); });
}

void IwarpRun::AllowFailure() {
  for (int i = 0; i < 2; ++i) flow(i).AllowFailure();
}

void IwarpRun::EndIt() {
  if (std::exchange(ending_, true)) return;
  AllowFailure();
  // The listener may not know of the connection yet.
  const int ender =
      end(plan_->ender).opened() ? plan_->ender : plan_->initiator;
  switch (plan_->ending) {
    case IwarpEnding::kBoth:
      if (end(1 - ender).opened()) end(1 - ender).Disconnect();
      [[fallthrough]];
    case IwarpEnding::kDisconnect:
      return end(ender).Disconnect();
    case IwarpEnding::kAbort:
      return end(ender).Abort();
    case IwarpEnding::kError:
      return end(ender).Fail();
  }
}

// --- Rules at rest -----------------------------------------------------------

void IwarpRun::WaitForRest(Duration limit, const char* what) {
  Require(world_.RunUntil(world_.now() + limit), what);
}

void IwarpRun::CheckWork() {
  if (ending_ || damaged_ || troubled_) return;
  for (int i = 0; i < 2; ++i) {
    Require(connected_[static_cast<size_t>(i)], "an end is not connected");
    Require(end(i).endpoint().failure() == iwarp::Failure::kNone,
            "the connection fails without a reason");
    Require(flow(i).served(), "a request is not served");
  }
  ++stats_.quiet;
}

void IwarpRun::CheckEnds() {
  for (int i = 0; i < 2; ++i) {
    const auto at = static_cast<size_t>(i);
    stats_.requests += flow(i).succeeded();
    if (end(i).opened()) {
      const tcp::Connection& connection = end(i).endpoint().connection();
      stats_.resent += connection.sender().counters().retransmissions;
    }
    Require(!connected_[at] || end(i).qp().state() == QpState::kErr,
            "the queue pair outlives its connection");
    flow(i).Finish();
    const bool expects = i == plan_->initiator || requested_[at];
    // Who rejects a request knows it.
    Require(end_events_[at] == (expects ? 1u : 0u) ||
                (plan_->rejects && i == plan_->listener()),
            "the end is not reported");
    if (connected_[at]) {
      const mpa::Agreement& agreement = end(i).endpoint().set_up().agreement();
      iwarp_wire::CheckFpdus(rule(i).bytes(), agreement.crc,
                             agreement.send_markers, false);
    }
    end(i).Finish();
  }
}

}  // namespace urnic::sim
