#include "transport/rud/upper/endpoint.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace urnic::rud::upper {

Endpoint::Endpoint(const EndpointConfig& config,
                   std::span<Adapter* const> adapters, uint64_t incarnation)
    : core_(config, incarnation),
      sender_(&core_),
      handshake_(&core_),
      recovery_(&core_, &sender_, &handshake_) {
  URNIC_CHECK(!adapters.empty() && adapters.size() <= kMaxNics &&
              incarnation != 0);
  URNIC_CHECK(config.paths != 0 && config.paths <= kMaxPaths);
  for (size_t i = 0; i < adapters.size(); ++i) {
    core_.nics.push_back(
        std::make_unique<Nic>(adapters[i], static_cast<uint8_t>(i)));
    const Nic& nic = *core_.nics[i];
    URNIC_CHECK(nic.packet_bytes >= kLeastPacketBytes &&
                nic.packet_bytes <= nic.send.slot_bytes());
  }
  core_.peers.resize(1);
}

Endpoint::~Endpoint() {
  for (uint32_t i = 1; i < core_.peers.size(); ++i) RemovePeer(core_.now, i);
}

// --- Peers -------------------------------------------------------------------

std::vector<uint8_t> Endpoint::Address() const {
  EndpointAddress address;
  address.incarnation = core_.incarnation;
  address.reassembly_bytes = core_.config.reassembly_bytes;
  address.open_messages = core_.config.open_messages;
  for (const std::unique_ptr<Nic>& nic : core_.nics) {
    address.nics.push_back(
        {nic->address, std::min(nic->packet_bytes, nic->receive.slot_bytes())});
  }
  return address.Encode();
}

uint32_t Endpoint::AddPeer(Time now, std::span<const uint8_t> bytes) {
  core_.now = std::max(core_.now, now);
  auto address = EndpointAddress::Decode(bytes);
  if (!address.has_value()) return 0;
  uint32_t number = 1;
  while (number < core_.peers.size() && core_.peers[number] != nullptr)
    ++number;
  if (number == core_.peers.size()) core_.peers.emplace_back();
  // A sender uses as much memory as we announce. But it counts a message as
  // done when it has arrived in our receive FIFOs; part of it may still be in
  // one FIFO while the next message arrives in another. So the limits are
  // higher than what we announce.
  ReassemblyLimits limits = {.bytes = core_.config.reassembly_bytes,
                             .messages = core_.config.open_messages};
  for (const std::unique_ptr<Nic>& nic : core_.nics) {
    limits.messages += nic->receive.count();
    limits.bytes += uint64_t{2} * nic->receive.count() *
                    nic->receive.slot_bytes() * kUnitPackets;
  }
  auto peer = std::make_unique<Peer>(number, std::move(*address), limits);
  if (!AddPairs(*peer)) return 0;
  peer->pathless_since = core_.now;
  Peer& added = *peer;
  core_.peers[number] = std::move(peer);
  for (Pair& pair : added.pairs) {
    if (!pair.is_reachable()) continue;
    if (pair.handle >= pair.nic->pairs.size())
      pair.nic->pairs.resize(pair.handle + 1);
    pair.nic->pairs[pair.handle] = &pair;
  }
  handshake_.Begin(added);
  core_.Wake(core_.now);
  return number;
}

bool Endpoint::AddPairs(Peer& peer) {
  uint32_t stride = UINT16_MAX;
  for (const NicAddress& nic : peer.address.nics)
    stride = std::min(stride, nic.packet_bytes);
  for (const std::unique_ptr<Nic>& nic : core_.nics)
    stride = std::min(stride, nic->packet_bytes);
  peer.stride = static_cast<uint16_t>(stride);
  peer.nics.resize(peer.address.nics.size());
  peer.pairs.reserve(core_.nics.size() * peer.nics.size());
  for (const std::unique_ptr<Nic>& nic : core_.nics) {
    for (uint8_t i = 0; i < peer.nics.size(); ++i) AddPair(peer, *nic, i);
  }
  return std::any_of(peer.pairs.begin(), peer.pairs.end(),
                     [](const Pair& pair) { return pair.is_reachable(); });
}

void Endpoint::AddPair(Peer& peer, Nic& nic, uint8_t peer_nic) {
  Pair& pair = peer.pairs.emplace_back();
  const WindowAddress& window = peer.address.nics[peer_nic].window;
  pair.peer = &peer;
  pair.nic = &nic;
  pair.peer_nic = peer_nic;
  pair.window = window.window;
  // Entries that are already in the FIFO come from an earlier peer with the
  // same number.
  pair.valid_from = nic.receive.end();
  pair.handle = nic.adapter->AddPeer(window);
  pair.paths.resize(core_.config.paths);
  for (size_t i = 0; i < pair.paths.size(); ++i) {
    pair.paths[i].pair = &pair;
    pair.paths[i].number = static_cast<uint8_t>(i);
    pair.paths[i].shared.cc.Start(core_.config.quiet_packets,
                                  core_.config.most_packets, peer.stride);
  }
}

void Endpoint::RemovePeer(Time now, uint32_t number) {
  core_.now = std::max(core_.now, now);
  if (number >= core_.peers.size() || core_.peers[number] == nullptr) return;
  Peer& peer = *core_.peers[number];
  if (!peer.is_lost) handshake_.SayBye(peer);
  Flush();
  recovery_.Fail(peer, Status::kCanceled);
  for (Pair& pair : peer.pairs) {
    if (!pair.is_reachable()) continue;
    pair.nic->pairs[pair.handle] = nullptr;
    pair.nic->adapter->RemovePeer(pair.handle);
    for (Path& path : pair.paths) std::erase(core_.touched, &path);
  }
  std::erase(core_.pending, &peer);
  std::erase(holders_, &peer);
  core_.peers[number].reset();
}

bool Endpoint::IsLost(uint32_t number) const {
  const Peer* const found = peer(number);
  return found != nullptr && found->is_lost;
}

// --- Operations --------------------------------------------------------------

Operation* Endpoint::Take(Time now, uint32_t number, OperationKind kind,
                          uint64_t bytes, uint64_t user, Status& status) {
  core_.now = std::max(core_.now, now);
  Peer* const peer =
      number < core_.peers.size() ? core_.peers[number].get() : nullptr;
  if (peer == nullptr || peer->is_lost) {
    status = peer == nullptr ? Status::kUnknownPeer : Status::kPeerLost;
    return nullptr;
  }
  uint64_t units = 1;
  const uint64_t unit_bytes = uint64_t{kUnitPackets} * peer->stride;
  if (bytes > unit_bytes) units = (bytes - 1) / unit_bytes + 1;
  if (kind == OperationKind::kSend && bytes > peer->stride &&
      (units > MessageTag::kMaxUnits ||
       units * unit_bytes > peer->address.reassembly_bytes)) {
    status = Status::kTooLong;
    return nullptr;
  }
  if (units > UINT32_MAX || !core_.operations.HasFree()) {
    status = units > UINT32_MAX ? Status::kTooLong : Status::kTryAgain;
    return nullptr;
  }
  status = Status::kOk;
  Operation& operation = core_.operations[core_.operations.Take()];
  operation.Reset(kind, user, bytes);
  operation.peer = peer;
  operation.peer_number = number;
  operation.units = static_cast<uint32_t>(units);
  return &operation;
}

Status Endpoint::Write(Time now, uint32_t peer, uint64_t local_pvo,
                       uint64_t remote_pvo, uint64_t bytes, uint64_t user) {
  Status status;
  Operation* const operation =
      Take(now, peer, OperationKind::kWrite, bytes, user, status);
  if (operation == nullptr) return status;
  operation->local_pvo = local_pvo;
  operation->remote_pvo = remote_pvo;
  sender_.Start(*operation);
  return status;
}

Status Endpoint::Read(Time now, uint32_t peer, uint64_t local_pvo,
                      uint64_t remote_pvo, uint64_t bytes, uint64_t user) {
  Status status;
  Operation* const operation =
      Take(now, peer, OperationKind::kRead, bytes, user, status);
  if (operation == nullptr) return status;
  operation->local_pvo = local_pvo;
  operation->remote_pvo = remote_pvo;
  sender_.Start(*operation);
  return status;
}

Status Endpoint::Send(Time now, uint32_t peer, uint64_t local_pvo,
                      uint64_t bytes, uint64_t user) {
  Status status;
  Operation* const operation =
      Take(now, peer, OperationKind::kSend, bytes, user, status);
  if (operation == nullptr) return status;
  operation->local_pvo = local_pvo;
  sender_.Start(*operation);
  return status;
}

Status Endpoint::WriteInline(Time now, uint32_t peer,
                             std::span<const uint8_t> data, uint64_t remote_pvo,
                             uint64_t user) {
  if (data.size() > URNIC_RUD_INLINE) return Status::kTooLong;
  Status status;
  Operation* const operation =
      Take(now, peer, OperationKind::kWrite, data.size(), user, status);
  if (operation == nullptr) return status;
  operation->remote_pvo = remote_pvo;
  operation->SetInline(data);
  sender_.Start(*operation);
  return status;
}

Status Endpoint::SendInline(Time now, uint32_t peer,
                            std::span<const uint8_t> data, uint64_t user) {
  if (data.size() > URNIC_RUD_INLINE) return Status::kTooLong;
  Status status;
  Operation* const operation =
      Take(now, peer, OperationKind::kSend, data.size(), user, status);
  if (operation == nullptr) return status;
  operation->SetInline(data);
  sender_.Start(*operation);
  return status;
}

// --- Polling -----------------------------------------------------------------

void Endpoint::Flush() {
  for (const std::unique_ptr<Nic>& nic : core_.nics) {
    if (!nic->send.HasUnpublished()) continue;
    nic->send.Publish();
    nic->adapter->Doorbell();
  }
}

uint32_t Endpoint::Poll(Time now, std::span<Event> events) {
  core_.now = std::max(core_.now, now);
  const bool may_time_out = MayTimeOut();
  Recycle();
  for (const std::unique_ptr<Nic>& nic : core_.nics) {
    nic->send.Collect([this, &nic](const urnic_rud_send& command) {
      OnRefusedCommand(*nic, command);
    });
  }
  uint32_t count = 0;
  for (const std::unique_ptr<Nic>& nic : core_.nics)
    count += PollNic(*nic, events.subspan(count));
  if (core_.now >= core_.deadline && may_time_out) RunTimers();
  SettleWindows();
  Pump();
  Flush();
  while (count != events.size() && core_.operations.done() != 0)
    events[count++] = core_.operations.TakeDone();
  return count;
}

// While the program did not poll, answers have waited in the RNIC, and so has a
// peer in the same thread. They come in bursts, one with each poll. Without
// this, everything in flight was retransmitted whenever another program had
// used the CPU.
bool Endpoint::MayTimeOut() {
  constexpr uint8_t kPolls = 4;
  const Duration away = core_.now - polled_at_;
  polled_at_ = core_.now;
  if (polls_to_wait_ != 0) return --polls_to_wait_ == 0;
  if (away < core_.config.min_time_out) return true;
  polls_to_wait_ = kPolls - 1;
  return false;
}

void Endpoint::Recycle() {
  for (Peer* peer : holders_) peer->reassembly.Recycle();
  holders_.clear();
  for (const std::unique_ptr<Nic>& nic : core_.nics) {
    nic->holds_messages = false;
    nic->receive.Return();
  }
}

void Endpoint::RunTimers() {
  core_.deadline = Time::Infinite();
  for (const std::unique_ptr<Peer>& peer : core_.peers) {
    if (peer != nullptr) recovery_.RunTimers(*peer);
  }
  core_.deadline = Time::Infinite();
  for (const std::unique_ptr<Peer>& peer : core_.peers) {
    if (peer != nullptr) core_.Wake(recovery_.DueAt(*peer));
  }
}

void Endpoint::Pump() {
  if (core_.pending.empty()) return;
  // Peers that still wait are added again.
  std::vector<Peer*> pending;
  pending.swap(core_.pending);
  for (Peer* peer : pending) {
    peer->is_pending = false;
    if (!peer->is_lost) sender_.Pump(*peer);
    if (peer->HasPending()) core_.Touch(*peer);
  }
}

// Tells congestion control about all answers of one Poll() together.
void Endpoint::SettleWindows() {
  for (Path* path : core_.touched) {
    if (path->sample.ns() != 0)
      path->shared.OnRoundTrip(core_.now, path->sample);
    path->shared.cc.OnAck({.now = core_.now,
                           .round_trip = path->sample,
                           .packets = path->acked_packets,
                           .bytes = path->acked_bytes,
                           .marked = path->marked});
    path->is_touched = path->marked = false;
    path->acked_packets = path->acked_bytes = 0;
    path->sample = Duration();
  }
  core_.touched.clear();
}

}  // namespace urnic::rud::upper
