// The loop. The code that it calls per packet is in headers, so that the
// compiler can inline it. That code does not allocate, lock or wait.

#include "datapath/engine/engine.h"

#include <rte_pause.h>

#include <algorithm>
#include <utility>

#include "datapath/engine/connection_table.h"
#include "datapath/engine/flow_scheduler.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_table.h"
#include "datapath/engine/receiver.h"
#include "datapath/engine/traced_sink.h"
#include "datapath/engine/transmitter.h"
#include "datapath/guest/eal.h"
#include "datapath/guest/give_way.h"
#include "transport/rc/recovery.h"

namespace urnic {

namespace {

// About 50 us of failed polling: longer than an iteration, and as long as
// yielding the CPU takes.
constexpr uint32_t kRefusalsBeforeGivingWay = 4096;

// How long an engine waits at its end for the port to accept the last frames:
// as long as a port waits for its peer to fetch them.
constexpr int kLastFramesMs = 300;

}  // namespace

Engine::Engine(Port* port, const Environment& environment)
    : port_(port),
      environment_(environment),
      now_(Now()),
      trace_([this] { return Now(); }),
      capture_([this] { return Now(); }),
      tx_(port, &counters_, &capture_),
      history_(&now_, &trace_),
      failures_(&now_, &trace_),
      custody_(port->pool(), &counters_),
      recovery_(
          new rc::RecoveryPool({}, &custody_, &counters_.roce, &history_)),
      sink_(new TracedSink(&completions_, &memory_, &counters_, &failures_,
                           &now_, environment.witness(), &trace_, &capture_)),
      flows_(new FlowScheduler(&now_, sink_.get(), &environment_)),
      transmitter_(new Transmitter(&tx_, flows_.get(), sink_.get(), &memory_,
                                   &counters_, environment.witness())),
      receiver_(new Receiver(port, &tx_, flows_.get(), sink_.get(), &counters_,
                             environment.witness())),
      qps_(new QpTable({.port = port,
                        .flows = flows_.get(),
                        .sink = sink_.get(),
                        .transmitter = transmitter_.get(),
                        .pending = &pending_,
                        .recovery = recovery_.get(),
                        .counters = &counters_,
                        .history = &history_,
                        .trace = &trace_,
                        .now = &now_})) {}

Engine::~Engine() {
  runner_.reset();
  TakeLcore(port_->lcore());
  // A request without an acknowledgement is complete when its last packet is
  // built, and a response is sent only once. The port may not have had room for
  // these packets.
  for (int i = 0; i < kLastFramesMs && !tx_.Flush(); ++i) {
    environment_.Sleep(Duration::Milliseconds(1));
  }
  receiver_->FreeReceived();
  tx_.FreeAll();
  custody_.FreeAll();
  ReleaseLcore();
}

void Engine::Serve(Network* network) {
  network_ = network;
  network->gsi().TraceTo(&trace_);
  transmitter_->Serve(network);
  receiver_->Serve(network);
  qps_->Serve(network);
  if (!network->serves_iwarp()) return;
  connections_.reset(new ConnectionTable({.flows = flows_.get(),
                                          .sink = sink_.get(),
                                          .tx = &tx_,
                                          .frames = &custody_,
                                          .counters = &counters_,
                                          .history = &history_,
                                          .trace = &trace_,
                                          .now = &now_},
                                         network));
  receiver_->ServeTcp(network, connections_.get());
}

EngineCounters Engine::CountersOfAll() {
  if (connections_ != nullptr) connections_->CollectCounters();
  EngineCounters all = counters_;
  qps_->AddRequesters(all.requesters);
  all.roce.AddVerdicts(all.verdicts);
  if (connections_ != nullptr) connections_->AddLiving(all.iwarp);
  return all;
}

cc::RoundTripCounts Engine::RoundTripsOfAll() const {
  cc::RoundTripCounts all;
  flows_->AddRoundTrips(all);
  if (connections_ != nullptr) connections_->AddRoundTrips(all);
  return all;
}

void Engine::EndConnections() {
  if (connections_ == nullptr) return;
  ControlScope scope(*this);
  connections_->AbortAll();
  // Sends as many RSTs as the port accepts.
  for (uint32_t sent = 0; sent < connections_->size(); sent += kBurstMax) {
    transmitter_->TransmitReady(now_, /*acks_wait=*/false);
  }
  receiver_->ServeTcp(network_, nullptr);
  connections_.reset();
}

Engine::ControlScope::ControlScope(Engine& engine) : engine_(engine) {
  // The holder is at most one iteration away, unless it has been preempted.
  for (int spins = 0; !engine_.token_.TryTake(); ++spins) {
    if (spins < 1000) {
      rte_pause();
    } else {
      GiveWay();
    }
  }
  Enter();
}

Engine::ControlScope::ControlScope(Engine& engine, Duration patience)
    : engine_(engine) {
  const Time end = engine.Now() + patience;
  while (!engine_.token_.TryTake()) {
    if (engine.Now() >= end) return;
    GiveWay();
  }
  Enter();
}

void Engine::ControlScope::Enter() {
  engine_.Enter();
  engine_.now_ = engine_.Now();
  entered_ = true;
}

Engine::ControlScope::~ControlScope() {
  if (!entered_) return;
  if (engine_.connections_ != nullptr) engine_.connections_->DeliverEvents();
  engine_.network_->UpdateDeadline();
  // An acknowledgement may be waiting for an answer of the program. The program
  // makes a control call instead, so its answer may take long, and the peer
  // must not wait for that.
  if (!engine_.flows_->ready().empty()) {
    engine_.TransmitAll();
  }
  engine_.Leave();
  if (!engine_.token_.Release(engine_.pending_)) return;
  engine_.Progress();
}

void Engine::RunBy(std::unique_ptr<Runner> runner) {
  {
    ControlScope scope(*this);
    runner_.swap(runner);
  }
  runner.reset();  // may wait for its thread
}

void Engine::Enter() {
  TakeLcore(port_->lcore());
  memory_.Enter();
}

bool Engine::WorkLeft() const {
  const bool ready = !flows_->ready().empty() &&
                     !(answers_.waiting() && transmitter_->only_acks_left());
  return ready || tx_.blocked() || tx_.looped() != 0 ||
         network_->gsi().waiting() || completions_.lost() ||
         (connections_ != nullptr && connections_->events_due());
}

Time Engine::NextDeadline() const {
  return std::min({flows_->NextDeadline(), network_->next_deadline(),
                   completions_.held_deadline(),
                   connections_ == nullptr ? Time::Infinite()
                                           : connections_->NextDeadline()});
}

void Engine::Leave() {
  if (runner_ != nullptr) runner_->BeforeRelease(WorkLeft(), NextDeadline());
  EndTurn();
}

void Engine::EndTurn() { ReleaseLcore(); }

void Engine::Doorbell(EngineQp& qp) {
  Post(
      token_, pending_, qp.place,
      [&] {
        Enter();
        now_ = Now();
        flows_->OnPost(qp.serving_flow());
        TransmitAll();
        answers_.OnPost();
        Leave();
      },
      [this] {
        Enter();
        Iterate(/*inline_poll=*/true);
        Leave();
      });
}

bool Engine::Progress() {
  if (ServeIfFree(token_, pending_, [this] {
        Enter();
        Iterate(/*inline_poll=*/true);
        if (runner_ != nullptr) {
          runner_->OnProgramPoll(now_,
                                 completions_.wrote() && !answers_.waiting());
        }
        Leave();
      })) {
    // The thread that has made the engine quiet may need the CPU.
    if (__builtin_expect(is_quiet(), 0)) GiveWay();
    return true;
  }
  // A holder that stays this long has probably been preempted, perhaps by this
  // very thread. Let it finish.
  if (refused_polls_.fetch_add(1, std::memory_order_relaxed) %
          kRefusalsBeforeGivingWay ==
      kRefusalsBeforeGivingWay - 1) {
    GiveWay();
  }
  return false;
}

void Engine::TransmitAll() {
  if (__builtin_expect(is_quiet(), 0)) return;
  transmitter_->TransmitReady(now_, /*acks_wait=*/false);
}

bool Engine::AcksWait(Time now, bool inline_poll) {
  const bool wrote = completions_.wrote();
  const bool only_ack = Transmitter::OnlyAckWaits(flows_->ready().front());
  // A program that polls for the completion of a request comes back, and sends
  // its acknowledgements itself.
  if (answers_.expects_answers() && only_ack &&
      (wrote || !inline_poll || !flows_->NextDeadline().IsInfinite())) {
    return answers_.OnData(now);
  }
  if (wrote) {
    return inline_poll && (runner_ == nullptr || !runner_->active());
  }
  return !inline_poll && only_ack && answers_.OnData(now);
}

void Engine::WatchBlocked(Time now) {
  if (accepted_ != counters_.tx_packets || accepted_at_ == Time()) {
    accepted_ = counters_.tx_packets;
    accepted_at_ = now;
    return;
  }
  if (now - accepted_at_ <= kStuck) return;
  accepted_at_ = now;
  constexpr const char* kWhy = "it took nothing to send for two seconds";
  if (port_->ReplaceDevice(kWhy)) {
    failures_.Add({.code = ErrorCode::kPortStuck, .text = kWhy});
  }
}

bool Engine::Iterate(bool inline_poll) {
  Time now = now_ = Now();
  if (__builtin_expect(completions_.lost(), 0)) {
    completions_.ClearLost();
    qps_->FailUsersOfFullQueues();
  }
  ++counters_.iterations;
  completions_.BeginIteration();
  if (pending_.Any()) {
    pending_.Drain([this](uint32_t place) {
      // The queue pair may have been destroyed since, and its place reused.
      if (const EngineQp* qp = qps_->At(place)) {
        flows_->OnPost(qp->serving_flow());
        answers_.OnPost();
      }
    });
  }
  // Marks are drained even if the engine is quiet. Otherwise the threads that
  // left them would ask for another iteration again and again.
  if (__builtin_expect(is_quiet(), 0)) return false;
  if (__builtin_expect(flows_->any_late_look(), 0))
    flows_->LookForLatePosts(now);
  if (__builtin_expect(connections_ != nullptr, 0)) connections_->FollowLink();
  bool worked = false;
  // Also if nothing is ready any more: else the time to wait until would stay.
  const bool acks_wait = answers_.MayWait(now);
  if (!flows_->ready().empty() || tx_.blocked() || network_->gsi().waiting()) {
    const uint64_t before = counters_.tx_packets;
    transmitter_->TransmitReady(now, acks_wait);
    worked = (!tx_.blocked() && !acks_wait) || counters_.tx_packets != before;
    if (__builtin_expect(tx_.blocked(), 0)) WatchBlocked(now);
  }
  if (__builtin_expect(connections_ != nullptr, 0)) {
    // Connections that are done are retired here, before new ones use their
    // addresses and ports.
    connections_->DeliverEvents();
  }
  worked |= receiver_->Receive(now, [this] { return now_ = Now(); });
  if (__builtin_expect(now >= network_->next_deadline(), 0)) {
    network_->OnTimer(now);
  }
  GsiPort& gsi = network_->gsi();
  if (__builtin_expect(gsi.waiting(), 0)) gsi.SendWaiting();
  if (__builtin_expect(now >= completions_.held_deadline(), 0)) {
    completions_.ReleaseHeldEvents();
  }
  worked |= flows_->FireTimers(now, TimersHold(now), [&](const Flow& flow) {
    network_->Suspect(*flow.common_path(), now);
  });
  if (__builtin_expect(connections_ != nullptr, 0)) {
    if (now >= connections_->NextDeadline()) connections_->OnTimer(now);
    connections_->DeliverEvents();
  }
  if (!flows_->ready().empty()) {
    transmitter_->TransmitReady(now, AcksWait(now, inline_poll));
  }
  return worked;
}

}  // namespace urnic
