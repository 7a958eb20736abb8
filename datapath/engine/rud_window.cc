#include "datapath/engine/rud_window.h"

#include <algorithm>

#include "ras/facts/facts.h"
#include "transport/base/check.h"

namespace urnic {
namespace {

bool IsFree(const std::unique_ptr<RudPeer>& peer) { return peer == nullptr; }

}  // namespace

RudWindow::RudWindow(const EngineQpConfig& config,
                     const RudWindowConfig& window, rud::ContextPool* contexts)
    : EngineQp(Kind::kRudWindow, config),
      contexts_(*contexts),
      core_({.number = config.limits.qpn,
             .job = window.job,
             .key = window.key,
             .max_payload = window.max_payload},
            contexts, window.tces, window.send, window.receive) {}

RudWindow::~RudWindow() {
  core_.ForgetAll();
  for (const uint32_t number : owned_) contexts_.Release(number);
}

uint32_t RudWindow::AddPeer(const net::Path& path) {
  auto peer = std::make_unique<RudPeer>();
  peer->path = path;
  peer->sent = wire::RudCrcOfAddresses(path.headers.src(), path.remote);
  peer->received = wire::RudCrcOfAddresses(path.remote, path.local);
  const auto free = std::ranges::find_if(peers_, IsFree);
  const auto index = static_cast<uint32_t>(free - peers_.begin());
  if (free == peers_.end()) {
    if (index == kMaxPeers) return 0;
    peers_.push_back(std::move(peer));
  } else {
    *free = std::move(peer);
  }
  // Variant 0 is not used: no number is 0.
  peers_[index]->number =
      ((++peers_added_ % kVariants + 1) << kPeerBits) | index;
  return peers_[index]->number;
}

bool RudWindow::RemovePeer(uint32_t number) {
  if (FindPeer(number) == nullptr) return false;
  peers_[number % kMaxPeers] = nullptr;
  return true;
}

uint32_t RudWindow::NumberOfPeer(const wire::Gid& local,
                                 const wire::Gid& remote) const {
  for (const auto& peer : peers_) {
    if (peer != nullptr && peer->path.remote == remote &&
        peer->path.local == local) {
      return peer->number;
    }
  }
  return 0;
}

std::optional<rud::ContextId> RudWindow::AcquireContext() {
  const std::optional<rud::ContextId> id = contexts_.Acquire(qpn());
  if (id.has_value()) owned_.push_back(id->number);
  return id;
}

bool RudWindow::ReleaseContext(rud::ContextId id) {
  if (contexts_.Find(id, qpn()) == nullptr) return false;
  core_.Forget(id.number);
  contexts_.Release(id.number);
  std::erase(owned_, id.number);
  return true;
}

FlowResult RudWindow::Modify(QpState target, const QpConfig& config,
                             FlowSink&) {
  URNIC_CHECK(target != QpState::kReset);
  config_ = config;
  target_ = target;
  if (target == QpState::kErr) {
    core_.Fail();
    told_ = true;  // it was wanted
  }
  return SettleNow();
}

FlowResult RudWindow::SettleNow() {
  core_.FinishTransmit();
  core_.Flush();
  return Result();
}

FlowResult RudWindow::Result() {
  FlowResult result;
  result.state = core_.failed() ? QpState::kErr : target_;
  if (core_.failed() && !std::exchange(told_, true))
    result.event = QpEvent::kAccessError;
  result.has_work = target_ >= QpState::kRts && core_.HasWork();
  return result;
}

void RudWindow::DescribeWork(Time, FactWriter& facts) const {
  facts.Add("contexts", static_cast<uint64_t>(owned_.size()));
  facts.Add("peers",
            peers_.size() -
                static_cast<uint64_t>(std::ranges::count_if(peers_, IsFree)));
}

void RudWindow::ForEachPath(const std::function<void(net::Path&)>& visit) {
  for (const auto& peer : peers_) {
    if (peer != nullptr) visit(peer->path);
  }
}

}  // namespace urnic
