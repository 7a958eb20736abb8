#include "datapath/engine/rud_window.h"

#include <algorithm>
#include <cstring>

#include "datapath/engine/traced_sink.h"
#include "ras/facts/facts.h"
#include "transport/base/check.h"
#include "transport/base/hash_index.h"
#include "transport/rud/context_pool.h"

namespace urnic {
namespace {

bool IsFree(const std::unique_ptr<RudPeer>& peer) { return peer == nullptr; }

}  // namespace

RudWindow::RudWindow(const EngineQpConfig& config,
                     const RudWindowConfig& window, rud::ContextPool* contexts)
    : EngineQp(Kind::kRudWindow, config),
      contexts_(*contexts),
      task_(window.task),
      core_({.number = config.limits.qpn,
             .job = window.job,
             .key = window.key,
             .max_payload = window.max_payload},
            contexts, window.tces, window.send, window.receive) {}

RudWindow::~RudWindow() {
  core_.ForgetAll();
  for (const uint32_t number : owned_) contexts_.Release(number);
}

size_t RudWindow::AddressHash::operator()(const Address& address) const {
  uint64_t words[4];
  std::memcpy(words, address.local.bytes.data(), sizeof(address.local));
  std::memcpy(words + 2, address.remote.bytes.data(), sizeof(address.remote));
  // Only the program chooses the peers, so no attacker can fill a bucket.
  return HashKey(HashKey(words[0], words[1], address.window), words[2],
                 words[3]);
}

uint32_t RudWindow::AddPeer(const net::Path& path, uint32_t window,
                            uint32_t key) {
  auto made = std::make_unique<RudPeer>();
  RudPeer& peer = *made;
  peer.path = path;
  peer.window = window;
  peer.key = key;
  peer.sent = wire::RudCrcOfAddresses(path.headers.src(), path.remote);
  peer.received = wire::RudCrcOfAddresses(path.remote, path.local);
  // No packet has the address of a group as its source.
  const bool is_heard = !path.multicast;
  URNIC_CHECK(!is_heard || !peers_by_address_.contains(AddressOf(peer)));
  const auto free = std::ranges::find_if(peers_, IsFree);
  const auto index = static_cast<uint32_t>(free - peers_.begin());
  if (free == peers_.end()) {
    if (index == kMaxPeers) return 0;
    peers_.push_back(std::move(made));
  } else {
    *free = std::move(made);
  }
  if (is_heard) peers_by_address_.emplace(AddressOf(peer), &peer);
  // The upper bits are never 0, so no number is 0.
  peer.number = ((++peers_added_ % kVariants + 1) << kPeerBits) | index;
  return peer.number;
}

bool RudWindow::RemovePeer(uint32_t number) {
  const RudPeer* const peer = FindPeer(number);
  if (peer == nullptr) return false;
  if (!peer->path.multicast) peers_by_address_.erase(AddressOf(*peer));
  std::erase_if(groups_,
                [&](const auto& group) { return group.second.peer == number; });
  last_heard_ = nullptr;
  peers_[number % kMaxPeers] = nullptr;
  return true;
}

bool RudWindow::JoinGroup(const wire::Gid& address, uint32_t number,
                          const rud::Membership& as) {
  if (groups_.size() == kMaxGroups) return false;
  const RudPeer& peer = *FindPeer(number);
  RudGroup group = {address, number, as,
                    wire::RudCrcOfAddresses(peer.path.remote, address)};
  const auto [at, is_new] = groups_.emplace(
      Address{address, peer.path.remote, peer.window}, std::move(group));
  URNIC_CHECK(is_new);
  return true;
}

bool RudWindow::LeaveGroup(const wire::Gid& address, uint32_t peer) {
  return std::erase_if(groups_, [&](const auto& entry) {
           return entry.second.address == address && entry.second.peer == peer;
         }) != 0;
}

bool RudWindow::IsInGroup(const wire::Gid& address) const {
  return std::ranges::any_of(groups_, [&](const auto& entry) {
    return entry.second.address == address;
  });
}

std::vector<wire::Gid> RudWindow::GroupsWith(uint32_t peer) const {
  std::vector<wire::Gid> found;
  for (const auto& [key, group] : groups_) {
    if (group.peer == peer) found.push_back(group.address);
  }
  return found;
}

const RudGroup* RudWindow::FindGroup(const wire::Gid& address,
                                     const wire::Gid& remote,
                                     uint32_t number) const {
  const auto found = groups_.find({address, remote, number});
  return found == groups_.end() ? nullptr : &found->second;
}

const RudPeer* RudWindow::SearchPeer(const wire::Gid& local,
                                     const wire::Gid& remote, uint32_t number) {
  const auto found = peers_by_address_.find({local, remote, number});
  if (found == peers_by_address_.end()) return nullptr;
  return last_heard_ = found->second;
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
                             FlowSink& sink) {
  URNIC_CHECK(target != QpState::kReset);
  config_ = config;
  target_ = target;
  if (target == QpState::kErr) {
    core_.Fail();
    told_ = true;  // because it asked for this
  }
  return SettleAt(sink.now());
}

FlowResult RudWindow::OnTimer(Time now, FlowSink&) {
  if (wakeups_ != nullptr) wakeups_->OnTimer(now);
  return SettleAt(now);
}

FlowResult RudWindow::Settle(TracedSink& sink) { return SettleAt(sink.now()); }

FlowResult RudWindow::SettleAt(Time now) {
  core_.FinishTransmit();
  core_.Flush();
  return Result(now);
}

FlowResult RudWindow::Result(Time now) {
  FlowResult result;
  result.state = core_.failed() ? QpState::kErr : target_;
  if (core_.failed() && !std::exchange(told_, true)) {
    result.event = QpEvent::kAccessError;
    // Nothing more will arrive.
    if (wakeups_ != nullptr) wakeups_->Hint();
  }
  if (wakeups_ != nullptr) {
    wakeups_->OnPublished(core_.published(), now);
    result.deadline = wakeups_->deadline();
  }
  result.has_work = target_ >= QpState::kRts && core_.HasWork();
  return result;
}

// The fields of document C's table of windows, except for the key: whoever
// knows it may send to the window.
void RudWindow::DescribeWork(Time, FactWriter& facts) const {
  const rud::SendFifo& send = core_.send_fifo();
  const rud::ReceiveFifo& receive = core_.receive_fifo();
  facts.Add("job", core_.config().job);
  facts.Add("held", uint64_t{core_.held()});
  facts.Add("contexts", static_cast<uint64_t>(owned_.size()));
  facts.Add("groups", static_cast<uint64_t>(groups_.size()));
  facts.Add("peers",
            peers_.size() -
                static_cast<uint64_t>(std::ranges::count_if(peers_, IsFree)));
  facts.Add("send-entries", send.count());
  facts.Add("send-waiting", send.Waiting());
  facts.Add("receive-entries", receive.count());
  facts.Add("receive-unread", receive.unread());
  facts.Add("receive-discarded", receive.discarded());
  facts.Add("slot-bytes", receive.slot_bytes());
  facts.Add("packet-bytes", max_payload());
  if (wakeups_ == nullptr) return;
  facts.Add("handlers", static_cast<uint64_t>(wakeups_->handlers()));
  if (wakeups_->rules().entries != WakeRules::kNever)
    facts.Add("wake-entries", wakeups_->rules().entries);
  if (wakeups_->rules().delay.ns() != 0)
    facts.Add("wake-delay-ns", wakeups_->rules().delay.ns());
}

void RudWindow::ForEachPath(const std::function<void(net::Path&)>& visit) {
  for (const auto& peer : peers_) {
    if (peer != nullptr) visit(peer->path);
  }
}

}  // namespace urnic
