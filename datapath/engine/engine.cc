#include "datapath/engine/engine.h"

#include <rte_mbuf.h>
#include <rte_pause.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/flow_sink.h"
#include "datapath/engine/roce_sender.h"
#include "datapath/engine/steering.h"
#include "datapath/guest/eal.h"
#include "datapath/guest/give_way.h"
#include "transport/base/check.h"

namespace urnic {

namespace {

bool Overflowed(const CompletionQueue* cq) {
  return cq != nullptr && cq->overflowed();
}

// How long an engine at its end waits for its port to accept the last frames:
// as long as a port waits for its peer to fetch them.
constexpr int kLastFramesSteps = 300;
constexpr Duration kLastFramesStep = Duration::Milliseconds(1);

}  // namespace

Engine::Engine(Port* port, const Environment& environment)
    : port_(port),
      environment_(environment),
      wheel_(Now()),
      tx_(port, &counters_),
      steering_(new Steering(&counters_)),
      roce_(new RoceSender(&tx_, &memory_, &counters_, environment.witness())),
      sink_(new FlowSink(&completions_, &memory_, &counters_, &last_now_,
                         environment.witness())) {}

Engine::~Engine() {
  runner_.reset();
  URNIC_CHECK(places_.empty());
  TakeLcore(port_->lcore());
  SendLastFrames();
  FreeReceived();
  tx_.FreeAll();
  ReleaseLcore();
}

void Engine::Serve(Network* network) {
  network_ = network;
  steering_->Serve(network);
  roce_->Serve(network);
}

// A request without an acknowledgement is complete once its last packet is
// built, and an answer is given once; but the port may have had no room yet.
void Engine::SendLastFrames() {
  for (int i = 0; i < kLastFramesSteps && !tx_.Flush(); ++i) {
    environment_.Sleep(kLastFramesStep);
  }
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
  engine_.last_now_ = engine_.Now();
  entered_ = true;
}

Engine::ControlScope::~ControlScope() {
  if (!entered_) return;
  engine_.network_->UpdateDeadline();
  engine_.Leave();
  if (!engine_.token_.Release(engine_.pending_)) return;
  engine_.Progress();
}

absl::StatusOr<EngineQp*> Engine::CreateQp(EngineQpConfig config) {
  NumberTable<EngineQp>& qps = network_->qps();
  if (qps.size() == qps.max()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("all ", qps.max(), " queue pairs are in use"));
  }
  //= IBTA 12.9.8.4: not while a connection of that number is in TIMEWAIT
  const std::optional<uint32_t> qpn = qps.Draw([this](uint32_t number) {
    return network_->gsi().IsQpnBusy(Qpn{number});
  });
  if (!qpn.has_value()) {
    return absl::ResourceExhaustedError(
        "no queue pair number is left: all that are leased to this network are "
        "in use, or have connections in TIMEWAIT");
  }
  config.limits.qpn = *qpn;
  return Enlist(EngineQp::Create(config, &network_->mrs()));
}

EngineQp* Engine::Enlist(std::unique_ptr<EngineQp> qp) {
  NumberTable<EngineQp>& qps = network_->qps();
  // All may fail together, and then nothing can be allocated.
  if (in_error_.capacity() <= qps.size()) in_error_.reserve(2 * qps.size() + 1);
  qps.Add(qp->qpn(), qp.get());
  places_.Add(*qp);
  pending_.Reserve(qp->place + 1);
  return qp.release();
}

void Engine::Unlink(EngineQp& qp) {
  wheel_.Remove(qp);
  std::erase_if(in_error_, [&](const LateLook& l) { return l.qp == &qp; });
  qp.in_error.store(false);
  ready_.Remove(qp);
}

void Engine::LookOnceMore(Time now) {
  for (size_t i = 0; i < in_error_.size(); ++i) ServicePost(*in_error_[i].qp);
  std::erase_if(in_error_, [now](const LateLook& l) { return l.until <= now; });
}

void Engine::FailUsersOfFullQueues() {
  completions_.ClearLost();
  places_.ForEach([this](EngineQp& qp) {
    if (qp.state() == QpState::kReset || qp.state() == QpState::kErr ||
        !(Overflowed(qp.send_cq) || Overflowed(qp.recv_cq))) {
      return;
    }
    ModifyQp(qp, QpState::kErr, qp.config());
    qp.OnEvent(QpEvent::kFatal);
  });
  network_->srqs().ForEach([](SharedReceiveQueue& srq) {
    if (srq.failed || !Overflowed(srq.cq)) return;
    srq.failed = true;
    if (srq.events != nullptr) srq.events->OnSrqError(srq);
  });
}

void Engine::SendOwed(EngineQp& qp) {
  if (!qp.OwesResponses() || !tx_.HasEmptyFrame()) return;
  tx_.Flush();
  // After the frames that the port has not accepted yet, as far as there is
  // room.
  const uint32_t room = std::min(tx_.room(), tx_.empty_frames());
  roce_->Send(qp, qp.TransmitResponses(roce_->Slots(qp, room)));
  Apply(qp, qp.Settle(*sink_));
  tx_.Flush();
}

void Engine::DestroyQp(EngineQp* qp) {
  SendOwed(*qp);
  counters_.requesters.Add(qp->counters());
  Remove(qp);
}

void Engine::Remove(EngineQp* qp) {
  Unlink(*qp);
  network_->LeaveAllGroups(*qp, last_now_);
  places_.Remove(*qp);
  network_->qps().Remove(qp->qpn());
  delete qp;
}

// Its counters are in the image.
std::string Engine::ExtractQp(EngineQp* qp) {
  std::string image;
  qp->AppendImage(last_now_, image);
  Remove(qp);
  return image;
}

absl::StatusOr<EngineQp*> Engine::InsertQp(EngineQpConfig config,
                                           const net::Path& path,
                                           std::span<const uint8_t> image) {
  NumberTable<EngineQp>& qps = network_->qps();
  const uint32_t qpn = config.limits.qpn;
  if (qps.Find(qpn) != nullptr) {
    return absl::AlreadyExistsError(
        absl::StrCat("queue pair number ", qpn, " is in use"));
  }
  if (!qps.MakeRoomFor(qpn)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "queue pair number ", qpn, " has no place in a table of ", qps.max()));
  }
  SharedReceiveQueue* xrc_srq = nullptr;
  if (config.service == QpService::kXrcTarget) {
    xrc_srq = std::exchange(config.srq, nullptr);
  }
  std::unique_ptr<EngineQp> made = EngineQp::Create(config, &network_->mrs());
  if (xrc_srq != nullptr) made->TakeFrom(xrc_srq->ring);
  const ImageRefusal refusal = made->BecomeImage(image, last_now_);
  if (!refusal.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the image of queue pair ", qpn, " is refused: ", refusal.Text()));
  }
  EngineQp* const qp = Enlist(std::move(made));
  qp->path = RocePath(path);
  FlowResult result = qp->Settle(*sink_);
  // That it has failed its owner was told where it was.
  if (result.state == QpState::kErr) WatchLatePosts(*qp);
  // What was posted meanwhile is found by Transmit().
  result.has_work |= result.state < QpState::kSqe;
  Apply(*qp, result);
  if (result.state >= QpState::kRtr && qp->service() != QpService::kUd) {
    network_->Adopt(qp->path, last_now_);
  }
  return qp;
}

EngineCounters Engine::CountersOfAll() const {
  EngineCounters all = counters_;
  places_.ForEach(
      [&](const EngineQp& qp) { all.requesters.Add(qp.counters()); });
  return all;
}

std::optional<uint32_t> Engine::ExtractQps(uint32_t place, size_t enough,
                                           std::string& out) const {
  const Time now = Now();
  for (; place < places_.end(); ++place) {
    if (out.size() >= enough) return place;
    if (const EngineQp* qp = places_.At(place)) qp->AppendImage(now, out);
  }
  return std::nullopt;
}

void Engine::ModifyQp(EngineQp& qp, QpState target, const QpConfig& config) {
  if (target == QpState::kReset || target == QpState::kErr) {
    SendOwed(qp);
    Unlink(qp);
  }
  const FlowResult result = qp.Modify(target, config, *sink_);
  Apply(qp, result);
  // Behind that: only the paths of connected queue pairs follow a route.
  if (target == QpState::kRtr && qp.service() != QpService::kUd) {
    network_->Adopt(qp.path, last_now_);
  }
}

void Engine::ReconfigureQp(EngineQp& qp, const QpConfig& config) {
  qp.Reconfigure(config);
}

void Engine::RunBy(std::unique_ptr<Runner> runner) {
  {
    ControlScope scope(*this);
    runner_.swap(runner);
  }
  runner.reset();  // may wait for its thread
}

}  // namespace urnic
