#include "transport/rud/upper/sender.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "transport/wire/rud.h"

namespace urnic::rud::upper {
namespace {

// Kept free for retransmissions and control messages.
constexpr uint32_t kReservedEntries = 4;
// A list is divided after this number of time-outs: perhaps the peer drops it
// silently because of one of its writes.
constexpr uint8_t kTriesOfList = 3;

UnitKind KindOf(OperationKind kind) {
  switch (kind) {
    case OperationKind::kRead:
      return UnitKind::kRead;
    case OperationKind::kSend:
      return UnitKind::kMessage;
    case OperationKind::kWrite:
      break;
  }
  return UnitKind::kWrite;
}

}  // namespace

// --- What is sent next -------------------------------------------------------

[[gnu::always_inline]] inline Path* Sender::PickPath(Peer& peer) {
  for (Path* path : peer.order) {
    // A suspect path gets no new units while another path works.
    if (path->state == PathState::kSuspect &&
        peer.order.front()->state == PathState::kLiving) {
      return nullptr;
    }
    Nic& nic = *path->pair->nic;
    if (path->pair->free.empty() || nic.send.Room() <= kReservedEntries)
      continue;
    if (!path->HasRoom()) {
      path->shared.OnFull(core_.now);
      continue;
    }
    if (__builtin_expect(path->shared.cc.pacer.active(), 0) &&
        core_.now < path->PacedUntil()) {
      core_.Wake(path->PacedUntil());
      continue;
    }
    return path;
  }
  return nullptr;
}

bool Sender::BeginMessage(Peer& peer, Operation& operation) const {
  if (SequenceDistance(peer.next_sequence, peer.sent.oldest()) >=
      static_cast<int32_t>(kMessageWindow) - 1) {
    return false;
  }
  const bool in_parts = operation.bytes > peer.stride;
  if (in_parts) {
    const uint64_t bytes =
        uint64_t{operation.units} * kUnitPackets * peer.stride;
    if (peer.open_messages >= peer.address.open_messages ||
        peer.open_bytes + bytes > peer.address.reassembly_bytes) {
      return false;
    }
    operation.open_message_bytes = bytes;
    ++peer.open_messages;
    peer.open_bytes += bytes;
  }
  operation.sequence = peer.next_sequence;
  peer.next_sequence =
      (peer.next_sequence + 1) & ((1u << MessageTag::kSequenceBits) - 1);
  return true;
}

bool Sender::PickFrom(Peer& peer, OperationList& queue, Unit& unit) {
  while (!queue.empty()) {
    const uint32_t index = queue.front();
    Operation& operation = core_.operations[index];
    if (operation.status != Status::kOk) {
      // Another unit of this operation has failed.
      queue.PopFront(core_.operations.all());
      operation.begun = operation.units;
      if (operation.open == 0) core_.End(index);
      continue;
    }
    if (operation.kind == OperationKind::kSend && operation.begun == 0 &&
        !BeginMessage(peer, operation)) {
      return false;
    }
    unit = {index, operation.begun++};
    ++operation.open;
    if (operation.begun == operation.units)
      queue.PopFront(core_.operations.all());
    return true;
  }
  return false;
}

bool Sender::PickUnit(Peer& peer, Unit& unit) {
  if (!peer.again.empty()) {
    unit = peer.again.back();
    peer.again.pop_back();
    return true;
  }
  peer.turn = !peer.turn;
  OperationList& first = peer.turn ? peer.memory_queue : peer.message_queue;
  OperationList& second = peer.turn ? peer.message_queue : peer.memory_queue;
  return PickFrom(peer, first, unit) || PickFrom(peer, second, unit);
}

// --- Commands ----------------------------------------------------------------

[[gnu::always_inline]] inline void Sender::Attach(Lane& lane, Path& path,
                                                  uint32_t packets) {
  if (path.under_way.empty())
    core_.Wake(core_.now + path.TimeOut(core_.config, lane.tries));
  lane.path = &path;
  lane.sent = core_.now;
  lane.order = path.next_order++;
  lane.under_way = static_cast<uint8_t>(packets);
  path.shared.Account(0, packets);
  path.under_way.Append(lane);
  if (!path.waits) {
    path.waits = true;
    path.silent_since = core_.now;
  }
}

[[gnu::always_inline]] inline void Sender::FillOperation(urnic_rud_send& entry,
                                                         const Lane& lane,
                                                         uint64_t packets) {
  const Operation& operation = core_.operations[lane.unit.operation];
  const uint64_t offset =
      uint64_t{lane.unit.index} * kUnitPackets * lane.stride;
  entry.notify = lane.kind == UnitKind::kRead ? URNIC_RUD_NOTIFY_TARGET
                                              : URNIC_RUD_NOTIFY_SOURCE;
  entry.bytes = lane.bytes;
  entry.stride = lane.stride;
  entry.packets = packets;
  if (operation.is_inline) {
    entry.flags = URNIC_RUD_INLINE_DATA;
    // With the width of the store that has just written it: a wider load would
    // have to wait.
    if (__builtin_expect(lane.bytes <= sizeof(uint64_t), 1)) {
      std::memcpy(entry.data, operation.data, sizeof(uint64_t));
    } else {
      std::memcpy(entry.data, operation.data, sizeof(entry.data));
    }
  } else {
    entry.local_pvo = operation.local_pvo + offset;
  }
  if (lane.kind == UnitKind::kMessage) {
    entry.flags |= URNIC_RUD_TO_FIFO;
    entry.remote_pvo =
        MessageTag{operation.sequence, lane.unit.index, operation.units}
            .value();
  } else {
    entry.remote_pvo = operation.remote_pvo + offset;
  }
}

[[gnu::always_inline]] inline void Sender::Fill(urnic_rud_send& entry,
                                                const Lane& lane,
                                                const Path& path,
                                                uint8_t opcode,
                                                uint64_t packets) {
  const Pair& pair = *lane.pair;
  entry.opcode = opcode;
  entry.flags = 0;
  entry.path = path.number;
  entry.notify = 0;
  entry.peer = pair.handle;
  entry.window = pair.window;
  entry.context = lane.theirs.value();
  entry.local_context = lane.own.value();
  entry.tid = lane.tid;
  if (lane.kind != UnitKind::kProbe || opcode == URNIC_RUD_ASK_STATE) return;
  entry.flags = URNIC_RUD_TO_FIFO | URNIC_RUD_INLINE_DATA;
  entry.notify = URNIC_RUD_NOTIFY_SOURCE;
  entry.remote_pvo = MessageTag::kProbe;
  entry.bytes = 0;
  entry.stride = 1;
  entry.packets = packets;
}

[[gnu::always_inline]] inline void Sender::Post(Lane& lane, Path& path,
                                                uint8_t opcode,
                                                uint64_t packets) {
  Nic& nic = *lane.pair->nic;
  const auto count = static_cast<uint32_t>(std::popcount(packets));
  Attach(lane, path, std::max(count, 1u));
  // Without room, treat the command as lost.
  if (__builtin_expect(!nic.send.HasRoom(), 0)) return;
  urnic_rud_send& entry = nic.send.Next();
  Fill(entry, lane, path, opcode, packets);
  if (__builtin_expect(lane.writes != 1, 0)) {
    if (opcode != URNIC_RUD_ASK_STATE)
      FillWrites(entry, lane, nic.send.NextSlot());
  } else if (opcode != URNIC_RUD_ASK_STATE && lane.kind != UnitKind::kProbe) {
    FillOperation(entry, lane, packets);
  }
  nic.send.Post();
  ++core_.stats.commands;
  if (__builtin_expect(path.shared.cc.pacer.active(), 0)) {
    // While the queue drains, one packet per round trip is intended. But the
    // smallest thing to send is a unit, so count it as one packet.
    const uint32_t paced = path.shared.cc.draining ? 1 : count;
    path.shared.cc.pacer.OnSend(core_.now, uint64_t{paced} * lane.stride,
                                path.shared.cc.CatchUp());
  }
}

[[gnu::always_inline]] inline void Sender::Begin(Lane& lane, Path& path,
                                                 const Unit& unit) {
  const Operation& operation = core_.operations[unit.operation];
  const uint64_t unit_bytes = uint64_t{kUnitPackets} * operation.peer->stride;
  const uint64_t offset = unit.index * unit_bytes;
  lane.unit = unit;
  lane.bytes =
      static_cast<uint32_t>(std::min(unit_bytes, operation.bytes - offset));
  lane.stride = operation.peer->stride;
  lane.packets = 1;
  if (lane.bytes > lane.stride) {
    lane.packets =
        static_cast<uint8_t>(wire::RudPackets(lane.bytes, lane.stride));
  }
  lane.missing = wire::RudAllPackets(lane.packets);
  lane.writes = 1;
  lane.kind = KindOf(operation.kind);
  lane.state = LaneState::kBusy;
  lane.tries = 0;
  lane.is_first = true;
  lane.asks = false;
  lane.tid = (TransferOf(lane.tid) + 1) * kAttempts;
  if (operation.MayShare()) {
    operation.peer->list = {&lane, lane.pair->nic->send.position(),
                            unit.operation};
  }
  Post(lane, path,
       lane.kind == UnitKind::kRead ? URNIC_RUD_READ : URNIC_RUD_WRITE,
       lane.missing);
}

// --- Small writes ------------------------------------------------------------

[[gnu::always_inline]] inline void Sender::AppendWrite(
    Lane& lane, const Operation& operation, uint8_t* slot) {
  uint8_t* const to = slot + lane.bytes;
  auto& write = *reinterpret_cast<wire::RudListEntry*>(to);
  write.pvo = wire::Be<uint64_t>(operation.remote_pvo);
  write.bytes = wire::Be<uint16_t>(static_cast<uint16_t>(operation.bytes));
  if (__builtin_expect(operation.bytes == sizeof(uint64_t), 1)) {
    std::memcpy(to + sizeof(write), operation.data, sizeof(uint64_t));
  } else {
    std::memcpy(to + sizeof(write), operation.data, operation.bytes);
  }
  lane.bytes += static_cast<uint32_t>(sizeof(write) + operation.bytes);
}

// Sets the lengths of the list in the slot.
[[gnu::always_inline]] inline void Sender::FillList(urnic_rud_send& entry,
                                                    Lane& lane) {
  lane.stride = static_cast<uint16_t>(lane.bytes);
  entry.bytes = lane.bytes;
  entry.stride = lane.stride;
}

// Fills the slot with all writes of the lane.
void Sender::FillWrites(urnic_rud_send& entry, Lane& lane, uint8_t* slot) {
  lane.bytes = 0;
  core_.ForEachUnit(lane, [&](const Unit& unit) {
    AppendWrite(lane, core_.operations[unit.operation], slot);
  });
  entry.flags = URNIC_RUD_SLOT_DATA | URNIC_RUD_LIST;
  entry.notify = URNIC_RUD_NOTIFY_SOURCE;
  entry.remote_pvo = 0;
  entry.packets = 1;
  FillList(entry, lane);
}

[[gnu::always_inline]] inline bool Sender::Join(Peer& peer, uint32_t index) {
  OpenList& list = peer.list;
  if (list.lane == nullptr) return false;
  Lane& lane = *list.lane;
  Operation& operation = core_.operations[index];
  if (!operation.MayShare()) return false;
  SendRing& ring = lane.pair->nic->send;
  urnic_rud_send* const entry = ring.Unpublished(list.position);
  // While a lane has only one write, its bytes are in the command and not in
  // the slot.
  const uint32_t before =
      lane.bytes + (lane.writes == 1 ? sizeof(wire::RudListEntry) : 0);
  if (entry == nullptr || lane.writes == wire::kRudMaxWrites ||
      before + sizeof(wire::RudListEntry) + operation.bytes > peer.stride) {
    list.lane = nullptr;
    return false;
  }
  uint8_t* const slot = ring.SlotAt(list.position);
  if (lane.writes == 1) FillWrites(*entry, lane, slot);
  core_.operations[list.last].next = index;
  list.last = index;
  ++lane.writes;
  AppendWrite(lane, operation, slot);
  FillList(*entry, lane);
  ++core_.stats.shared;
  return true;
}

bool Sender::JoinNext(Peer& peer) {
  if (peer.list.lane == nullptr) return false;
  if (!peer.again.empty()) {
    if (!Join(peer, peer.again.back().operation)) return false;
    peer.again.pop_back();
    return true;
  }
  if (peer.memory_queue.empty()) return false;
  const uint32_t index = peer.memory_queue.front();
  Operation& operation = core_.operations[index];
  if (operation.status != Status::kOk || !Join(peer, index)) return false;
  peer.memory_queue.PopFront(core_.operations.all());
  operation.begun = operation.open = 1;
  return true;
}

// --- Operations --------------------------------------------------------------

void Sender::Start(Operation& operation) {
  Peer& peer = *operation.peer;
  const uint32_t index = core_.operations.IndexOf(operation);
  const bool is_message = operation.kind == OperationKind::kSend;
  if (__builtin_expect(operation.units == 1 && !peer.HasPending(), 1)) {
    if (Join(peer, index)) {
      operation.begun = operation.open = 1;
      return;
    }
    Path* const path = PickPath(peer);
    if (path != nullptr && (!is_message || BeginMessage(peer, operation))) {
      operation.begun = operation.open = 1;
      return Begin(*path->pair->free.PopFront(), *path, {index, 0});
    }
  }
  OperationList& queue = is_message ? peer.message_queue : peer.memory_queue;
  const bool is_behind = !queue.empty();
  queue.Append(core_.operations.all(), index);
  // The first in the queue waits for something that only Poll() can change.
  if (is_behind) return;
  Pump(peer);
  if (peer.HasPending()) core_.Touch(peer);
}

void Sender::Pump(Peer& peer) {
  while (peer.HasPending()) {
    if (JoinNext(peer)) continue;
    Path* const path = PickPath(peer);
    Unit unit;
    if (path == nullptr || !PickUnit(peer, unit)) return;
    Begin(*path->pair->free.PopFront(), *path, unit);
  }
}

void Sender::NextAttempt(Lane& lane) {
  lane.is_first = false;
  ++lane.tid;
  // All attempts are used up. A new transfer makes all packets in flight stale,
  // just as another attempt does. Only the target's bits are lost.
  if (lane.tid % kAttempts == 0)
    lane.missing = wire::RudAllPackets(lane.packets);
}

void Sender::SendAgain(Lane& lane, Path& path) {
  NextAttempt(lane);
  lane.state = LaneState::kBusy;
  lane.asks = false;
  const bool is_read = lane.kind == UnitKind::kRead;
  core_.stats.packets_again +=
      static_cast<uint64_t>(std::popcount(lane.missing));
  Post(lane, path, is_read ? URNIC_RUD_READ : URNIC_RUD_WRITE, lane.missing);
}

void Sender::AskOrSendAgain(Lane& lane, Path& path) {
  const bool transfer_ends = lane.tid % kAttempts == kAttempts - 1;
  const bool is_divided = lane.writes != 1 && lane.tries >= kTriesOfList;
  if (lane.kind == UnitKind::kRead || (lane.packets == 1 && !is_divided) ||
      transfer_ends) {
    return SendAgain(lane, path);
  }
  NextAttempt(lane);
  lane.state = LaneState::kBusy;
  lane.asks = true;
  ++core_.stats.asked;
  Post(lane, path, URNIC_RUD_ASK_STATE, 0);
}

void Sender::SendProbe(Lane& lane, Path& path) {
  lane.state = LaneState::kBusy;
  lane.kind = UnitKind::kProbe;
  lane.is_first = true;
  lane.asks = false;
  lane.packets = 1;
  lane.bytes = 0;
  lane.stride = 1;
  lane.tid = (TransferOf(lane.tid) + 1) * kAttempts;
  Post(lane, path, URNIC_RUD_WRITE, 1);
  // If the FIFO is full, the packet does not arrive; but then the adapter
  // answers the state request.
  Detach(lane);
  lane.asks = true;
  ++lane.tid;
  Post(lane, path, URNIC_RUD_ASK_STATE, 0);
}

}  // namespace urnic::rud::upper
