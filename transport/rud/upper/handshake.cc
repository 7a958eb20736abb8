#include "transport/rud/upper/handshake.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "transport/base/mutation.h"

namespace urnic::rud::upper {
namespace {

using wire::Be;

constexpr Duration kFirstGap = Duration::Milliseconds(2);
constexpr Duration kLongestGap = Duration::Milliseconds(500);
constexpr uint32_t kGrantsMost = 64;  // in one message

Duration GapAfter(uint32_t tries) {
  return std::min(kFirstGap * (int64_t{1} << std::min(tries, 16u)),
                  kLongestGap);
}
uint8_t Increased(uint8_t tries) {
  return static_cast<uint8_t>(std::min(tries + 1, 255));
}

}  // namespace

// --- Asking ------------------------------------------------------------------

void Handshake::Begin(Peer& peer) {
  const size_t ours = core_.nics.size();
  const size_t theirs = peer.nics.size();
  // One lane of each pair is for probes.
  for (PeerNic& nic : peer.nics) {
    nic.wanted = static_cast<uint32_t>(
        ours + std::max<size_t>(core_.config.lanes / theirs, ours));
    nic.hello_due = core_.now;
  }
  peer.granted.resize(ours);
  RunTimers(peer);
}

void Handshake::RunTimers(Peer& peer) {
  for (uint8_t i = 0; i < peer.nics.size(); ++i) {
    PeerNic& nic = peer.nics[i];
    if (nic.is_granted || core_.now < nic.hello_due) continue;
    SendHello(peer, i);
    nic.hello_due = core_.now + GapAfter(nic.tries);
    nic.tries = Increased(nic.tries);
  }
  if (core_.now < peer.fence_due) return;
  if (peer.fencing.empty()) {
    peer.fence_due = Time::Infinite();
    return;
  }
  peer.fence_due = core_.now + GapAfter(peer.fence_tries);
  peer.fence_tries = Increased(peer.fence_tries);
  if (peer.order.empty()) return;
  const Path& path = *peer.order[peer.fence_tries % peer.order.size()];
  for (const Lane* lane = peer.fencing.front(); lane != nullptr;
       lane = lane->next) {
    SendRenewal(*lane, path);
  }
}

Time Handshake::DueAt(const Peer& peer) const {
  Time due = peer.fence_due;
  for (const PeerNic& nic : peer.nics) {
    if (!nic.is_granted) due = std::min(due, nic.hello_due);
  }
  return due;
}

void Handshake::Fence(Lane& lane) {
  Peer& peer = *lane.pair->peer;
  lane.state = LaneState::kFencing;
  peer.fencing.Append(lane);
  peer.fence_tries = 0;
  peer.fence_due = core_.now;
  core_.Wake(core_.now);
}

void Handshake::SendHello(Peer& peer, uint8_t peer_nic) {
  const PeerNic& nic = peer.nics[peer_nic];
  // Each try takes another path.
  const size_t ours = core_.nics.size();
  const Pair& pair =
      peer.pairs[(nic.tries % ours) * peer.nics.size() + peer_nic];
  const auto path = static_cast<uint8_t>(nic.tries / ours % core_.config.paths);
  ControlBody body;
  body.to = Be<uint64_t>(peer.address.incarnation);
  Post(pair, path, TagOf(ControlType::kHello, peer_nic, nic.wanted),
       {reinterpret_cast<const uint8_t*>(&body), sizeof(body)});
}

void Handshake::SendRenewal(const Lane& lane, const Path& path) {
  const Peer& peer = *lane.pair->peer;
  ControlBody body;
  body.to = Be<uint64_t>(peer.address.incarnation);
  body.generation = Be<uint32_t>(lane.generation + 1);
  Post(*path.pair, path.number,
       TagOf(ControlType::kRenew, lane.pair->peer_nic, lane.slot),
       {reinterpret_cast<const uint8_t*>(&body), sizeof(body)});
}

// It is not repeated, so it is sent along each path, also along those that were
// never measured.
void Handshake::SayBye(const Peer& peer) {
  ControlBody body;
  body.to = Be<uint64_t>(peer.address.incarnation);
  for (const Pair& pair : peer.pairs) {
    for (const Path& path : pair.paths) {
      Post(pair, path.number, TagOf(ControlType::kBye, pair.peer_nic, 0),
           {reinterpret_cast<const uint8_t*>(&body), sizeof(body)});
    }
  }
}

ControlTag Handshake::TagOf(ControlType type, uint8_t nic,
                            uint32_t count) const {
  ControlTag tag;
  tag.type = static_cast<uint8_t>(type);
  tag.nic = nic;
  tag.count = Be<uint32_t>(count);
  tag.from = Be<uint64_t>(core_.incarnation);
  return tag;
}

bool Handshake::Post(const Pair& pair, uint8_t path, const ControlTag& tag,
                     std::span<const uint8_t> payload) {
  Nic& nic = *pair.nic;
  if (!pair.is_reachable() || nic.failed || !nic.send.HasRoom() ||
      payload.size() > nic.send.slot_bytes()) {
    return false;
  }
  std::memcpy(nic.send.NextSlot(), payload.data(), payload.size());
  urnic_rud_send& entry = nic.send.Next();
  entry = {};
  entry.opcode = URNIC_RUD_PACKET;
  entry.path = path;
  entry.peer = pair.handle;
  entry.window = pair.window;
  entry.bytes = static_cast<uint32_t>(payload.size());
  std::memcpy(entry.tag, &tag, sizeof(tag));
  nic.send.Post();
  return true;
}

// --- Granting ----------------------------------------------------------------

Granted Handshake::MakeGrant(uint8_t nic, uint32_t generation) const {
  const auto context = core_.nics[nic]->adapter->AcquireContext();
  return {context.value_or(kNoContext), generation};
}

bool Handshake::OnHello(const Pair& pair, uint8_t path, uint32_t wanted) {
  std::vector<Granted>& granted = pair.peer->granted[pair.nic->number];
  const uint32_t most = std::min(wanted, core_.config.most_lanes);
  while (granted.size() < most) {
    const Granted grant = MakeGrant(pair.nic->number, 0);
    if (grant.context == kNoContext) break;
    granted.push_back(grant);
  }
  const auto count = static_cast<uint32_t>(granted.size());
  const uint32_t room =
      std::min(pair.nic->packet_bytes,
               pair.peer->address.nics[pair.peer_nic].packet_bytes);
  const uint32_t fit = std::clamp<uint32_t>(
      (room - sizeof(ControlBody)) / sizeof(ControlGrant), 1, kGrantsMost);
  for (uint32_t i = 0; i < count; i += fit)
    SendGrants(pair, path, pair.nic->number, i, std::min(fit, count - i));
  return true;
}

void Handshake::SendGrants(const Pair& pair, uint8_t path, uint8_t nic,
                           uint32_t first, uint32_t count) {
  const std::vector<Granted>& granted = pair.peer->granted[nic];
  std::array<uint8_t, sizeof(ControlBody) + kGrantsMost * sizeof(ControlGrant)>
      payload;
  ControlBody body;
  body.to = Be<uint64_t>(pair.peer->address.incarnation);
  std::memcpy(payload.data(), &body, sizeof(body));
  size_t at = sizeof(body);
  for (uint32_t i = first; i < first + count; ++i) {
    ControlGrant grant;
    grant.slot = Be<uint32_t>(i);
    grant.generation = Be<uint32_t>(granted[i].generation);
    grant.context = Be<uint64_t>(granted[i].context.value());
    std::memcpy(&payload[at], &grant, sizeof(grant));
    at += sizeof(grant);
  }
  Post(pair, path,
       TagOf(ControlType::kGrant, nic, static_cast<uint32_t>(granted.size())),
       std::span(payload).first(at));
}

bool Handshake::OnRenew(const Pair& pair, uint8_t path, const ControlTag& tag,
                        const ControlBody& body) {
  const uint32_t slot = tag.count.value();
  if (tag.nic >= pair.peer->granted.size() ||
      slot >= pair.peer->granted[tag.nic].size()) {
    return false;
  }
  Granted& granted = pair.peer->granted[tag.nic][slot];
  if (body.generation.value() == granted.generation + 1) {
    if (granted.context != kNoContext)
      core_.nics[tag.nic]->adapter->ReleaseContext(granted.context);
    granted = MakeGrant(tag.nic, granted.generation + 1);
  }
  // The same generation again: only the answer was lost.
  if (body.generation.value() != granted.generation) return false;
  SendGrants(pair, path, tag.nic, slot, 1);
  return true;
}

// --- What the peer has granted -----------------------------------------------

bool Handshake::OnGrant(Pair& pair, uint8_t path, const ControlTag& tag,
                        std::span<const uint8_t> grants) {
  Peer& peer = *pair.peer;
  const uint32_t count = tag.count.value();
  if (tag.nic >= peer.nics.size() || count > kGrantsMost * kGrantsMost ||
      grants.size() % sizeof(ControlGrant) != 0 || path >= pair.paths.size()) {
    return false;
  }
  PeerNic& nic = peer.nics[tag.nic];
  for (size_t at = 0; at < grants.size(); at += sizeof(ControlGrant)) {
    ControlGrant grant;
    std::memcpy(&grant, &grants[at], sizeof(grant));
    if (grant.slot.value() >= count) return false;
    OnGranted(peer, tag.nic, grant.slot.value(), grant.generation.value(),
              ContextId::Of(grant.context.value()));
  }
  const auto is_there = [](const std::unique_ptr<Lane>& lane) {
    return lane != nullptr;
  };
  nic.is_granted = nic.lanes.size() >= count &&
                   std::all_of(nic.lanes.begin(), nic.lanes.end(), is_there);
  answered_.push_back(&pair.paths[path]);
  return true;
}

void Handshake::OnGranted(Peer& peer, uint8_t peer_nic, uint32_t slot,
                          uint32_t generation, ContextId context) {
  PeerNic& nic = peer.nics[peer_nic];
  if (slot >= nic.wanted) return;
  if (slot >= nic.lanes.size()) nic.lanes.resize(slot + 1);
  if (nic.lanes[slot] == nullptr)
    return AddLane(peer, peer_nic, slot, generation, context);
  Lane& lane = *nic.lanes[slot];
  // A generation that is not newer answers an older request.
  if (lane.state != LaneState::kFencing || generation != lane.generation + 1)
    return;
  lane.generation = generation;
  lane.theirs = context;
  peer.fencing.Remove(lane);
  ++core_.stats.fenced;
  fenced_.push_back(&lane);
}

void Handshake::AddLane(Peer& peer, uint8_t peer_nic, uint32_t slot,
                        uint32_t generation, ContextId context) {
  const size_t ours = core_.nics.size();
  Pair& pair = peer.pairs[slot % ours * peer.nics.size() + peer_nic];
  auto lane = std::make_unique<Lane>();
  lane->pair = &pair;
  lane->theirs = context;
  lane->slot = slot;
  lane->generation = generation;
  const auto own =
      pair.is_reachable() ? pair.nic->adapter->AcquireContext() : std::nullopt;
  if (!own.has_value() || context == kNoContext) {
    if (own.has_value()) pair.nic->adapter->ReleaseContext(*own);
    lane->state = LaneState::kUseless;
  } else {
    lane->own = *own;
    pair.nic->SetLane(*own, lane.get());
    if (slot < ours) {
      pair.probe = lane.get();
      pair.probe_due = core_.now;
      core_.Wake(core_.now);
    } else {
      pair.free.Append(*lane);
    }
  }
  peer.nics[peer_nic].lanes[slot] = std::move(lane);
  core_.Touch(peer);
}

// --- Packets -----------------------------------------------------------------

bool Handshake::OnControl(Pair& pair, uint8_t path, const uint8_t bytes[16],
                          std::span<const uint8_t> payload) {
  ControlTag tag;
  ControlBody body;
  std::memcpy(&tag, bytes, sizeof(tag));
  if (tag.version != ControlTag::kVersion || payload.size() < sizeof(body))
    return false;
  std::memcpy(&body, payload.data(), sizeof(body));
  // From before a restart, of ours or of the peer.
  if (MUTATION(rud_upper_hears_another_life,
               tag.from.value() != pair.peer->address.incarnation, false) ||
      body.to.value() != core_.incarnation || pair.peer->is_lost) {
    return false;
  }
  switch (static_cast<ControlType>(tag.type)) {
    case ControlType::kHello:
      return tag.nic == pair.nic->number &&
             OnHello(pair, path, tag.count.value());
    case ControlType::kRenew:
      return OnRenew(pair, path, tag, body);
    case ControlType::kGrant:
      return OnGrant(pair, path, tag, payload.subspan(sizeof(body)));
    case ControlType::kBye:
      OnBye(*pair.peer);
      return true;
  }
  return false;
}

// Waits, because answers to earlier commands may still be in flight.
void Handshake::OnBye(Peer& peer) {
  if (!peer.leaves_at.IsInfinite()) return;
  peer.leaves_at = core_.now + core_.config.dead_after * 2;
  core_.Wake(peer.leaves_at);
}

void Handshake::End(Peer& peer) {
  for (PeerNic& nic : peer.nics) {
    for (const std::unique_ptr<Lane>& lane : nic.lanes) {
      if (lane == nullptr || lane->own == kNoContext) continue;
      lane->pair->nic->SetLane(lane->own, nullptr);
      lane->pair->nic->adapter->ReleaseContext(lane->own);
    }
    nic.lanes.clear();
    nic.is_granted = true;  // ends the requests
  }
  for (size_t i = 0; i < peer.granted.size(); ++i) {
    for (const Granted& granted : peer.granted[i]) {
      if (granted.context != kNoContext)
        core_.nics[i]->adapter->ReleaseContext(granted.context);
    }
    peer.granted[i].clear();
  }
}

}  // namespace urnic::rud::upper
