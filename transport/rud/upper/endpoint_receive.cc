// How an endpoint handles the entries of its rings.

#include <algorithm>
#include <bit>

#include "transport/base/mutation.h"
#include "transport/rud/upper/endpoint.h"

namespace urnic::rud::upper {
namespace {

// The functions that are always inlined here and in sender.cc reduce an 8-byte
// write from 828 to 668 instructions (rud/upper_write_8).

// The paths are sorted again after this number of units.
constexpr uint32_t kOrderAfter = 256;

bool HasUnit(const Lane& lane) {
  return lane.state == LaneState::kBusy || lane.state == LaneState::kParked;
}

}  // namespace

// --- What has become of our units --------------------------------------------

[[gnu::always_inline]] inline Lane* Endpoint::FindLane(
    Nic& nic, const urnic_rud_receive& entry) {
  Lane* const lane = nic.LaneOf(ContextId::Of(entry.context));
  if (lane != nullptr && HasUnit(*lane) &&
      TransferOf(lane->tid) == TransferOf(entry.tid)) {
    return lane;
  }
  ++core_.stats.stale;
  return nullptr;
}

[[gnu::always_inline]] inline void Endpoint::Release(Lane& lane) {
  if (lane.state == LaneState::kBusy) {
    Sender::Detach(lane);
  } else {
    lane.pair->peer->parked.Remove(lane);
  }
}

[[gnu::always_inline]] inline void Endpoint::Free(Lane& lane) {
  lane.state = LaneState::kFree;
  lane.pair->free.Prepend(lane);
  Peer& peer = *lane.pair->peer;
  if (peer.HasPending()) core_.Touch(peer);
}

// Takes what the answer says about its path.
[[gnu::always_inline]] inline void Endpoint::Measure(
    Lane& lane, const urnic_rud_receive& entry, bool is_complete) {
  Pair& pair = *lane.pair;
  Path& path =
      entry.path < pair.paths.size() ? pair.paths[entry.path] : *lane.path;
  if (!path.is_touched) {
    path.is_touched = true;
    core_.touched.push_back(&path);
  }
  path.marked |= (entry.flags & URNIC_RUD_MARKED) != 0;
  if (is_complete) {
    path.acked_packets += lane.packets;
    path.acked_bytes += lane.bytes;
  }
  // Karn's rule: after a retransmission, the answer may belong to an earlier
  // attempt. The answer to a state request contains its attempt.
  const bool is_exact = &path == lane.path && (lane.is_first || !is_complete);
  if (is_exact)
    path.OnSample(is_complete ? lane.packets : 1, core_.now - lane.sent);
  if (is_exact && is_complete) {
    path.completed_order = std::max(path.completed_order, lane.order);
    const Lane* const first = path.under_way.front();
    if (first != nullptr && path.WasPassed(*first))
      core_.Wake(path.LostAt(*first));
  }
  recovery_.OnAnswer(path);
}

[[gnu::always_inline]] inline void Endpoint::OnComplete(
    Nic& nic, const urnic_rud_receive& entry, UnitKind other) {
  Lane* const lane = FindLane(nic, entry);
  if (lane == nullptr) return;
  // A read completes at its target, and everything else at its source.
  if ((lane->kind == UnitKind::kRead) == (other == UnitKind::kRead)) return;
  Release(*lane);
  if (lane->asks && lane->kind != UnitKind::kProbe) {
    // The unit was not lost, only late.
    ++core_.stats.early;
    lane->path->OnEarly();
  }
  Measure(*lane, entry, true);
  if (lane->kind == UnitKind::kProbe) {
    lane->state = LaneState::kFree;
    return;
  }
  ++core_.stats.units;
  Free(*lane);
  MUTATION(rud_upper_ends_only_the_first_of_a_list,
           core_.ForEachUnit(*lane,
                             [this](const Unit& unit) { core_.EndUnit(unit); }),
           core_.EndUnit(lane->unit));
  Peer& peer = *lane->pair->peer;
  if (++peer.completions == kOrderAfter) recovery_.Order(peer);
}

void Endpoint::OnState(Nic& nic, const urnic_rud_receive& entry) {
  Lane* const lane = FindLane(nic, entry);
  if (lane == nullptr || lane->state != LaneState::kBusy || !lane->asks ||
      lane->tid != entry.tid) {
    return;
  }
  Release(*lane);
  if (lane->kind == UnitKind::kProbe) {
    Measure(*lane, entry, false);
    lane->state = LaneState::kFree;
    return;
  }
  const uint64_t missing = wire::RudAllPackets(lane->packets) & ~entry.arrived;
  if (missing != 0) lane->missing = missing;
  Path& path = *lane->path;
  if (missing != 0) path.OnLost();
  path.shared.cc.OnLoss(core_.now,
                        static_cast<uint32_t>(std::popcount(missing)));
  Measure(*lane, entry, false);
  // We ask about a list only in order to divide it: the question has made the
  // packets in flight stale.
  if (lane->writes != 1 && missing != 0) return Divide(*lane);
  sender_.SendAgain(*lane, path);
}

// Sends the writes of a list again, one by one.
void Endpoint::Divide(Lane& lane) {
  core_.ForEachUnit(lane, [this](const Unit& unit) {
    core_.operations[unit.operation].is_alone = true;
  });
  core_.GiveUnitsBack(lane);
  Free(lane);
}

void Endpoint::OnRefusal(Nic& nic, const urnic_rud_receive& entry) {
  Lane* const lane = FindLane(nic, entry);
  if (lane == nullptr || lane->kind == UnitKind::kProbe) return;
  Release(*lane);
  Measure(*lane, entry, false);
  // The answer names at most one of the writes. The others may be executed
  // twice, which nobody can notice before they are complete.
  if (lane->writes != 1) return Divide(*lane);
  Free(*lane);
  core_.FailUnits(*lane, Status::kRefused);
}

void Endpoint::OnRefusedCommand(Nic& nic, const urnic_rud_send& command) {
  const bool window_failed = command.status == URNIC_RUD_BAD_PVO ||
                             command.status == URNIC_RUD_FLUSHED;
  Lane* const lane = command.opcode == URNIC_RUD_PACKET
                         ? nullptr
                         : nic.LaneOf(ContextId::Of(command.local_context));
  const bool is_last =
      lane != nullptr && HasUnit(*lane) && lane->state == LaneState::kBusy &&
      lane->tid == command.tid && lane->kind != UnitKind::kProbe;
  // The transfer has already ended at the adapter: an entry that we have not
  // read yet says how.
  const bool is_late = command.opcode == URNIC_RUD_ASK_STATE &&
                       command.status == URNIC_RUD_BAD_CONTEXT;
  if (is_last && !is_late && command.status != URNIC_RUD_FLUSHED) {
    Release(*lane);
    Free(*lane);
    core_.FailUnits(*lane, command.status == URNIC_RUD_BAD_PVO
                               ? Status::kBadLocal
                               : Status::kBadRequest);
  }
  if (window_failed) recovery_.OnNicFailed(nic);
}

// --- What peers send ---------------------------------------------------------

Pair* Endpoint::FindPair(Nic& nic, const urnic_rud_receive& entry) const {
  Pair* const pair =
      entry.peer < nic.pairs.size() ? nic.pairs[entry.peer] : nullptr;
  if (pair == nullptr || pair->peer->is_lost) return nullptr;
  // Entries before `valid_from` are from an earlier peer with this number.
  const auto age =
      static_cast<int32_t>(nic.receive.position() - pair->valid_from);
  return age >= 0 ? pair : nullptr;
}

bool Endpoint::OnMessage(Nic& nic, const urnic_rud_receive& entry,
                         const uint8_t* payload, Event& event) {
  Pair* const pair = FindPair(nic, entry);
  if (pair == nullptr || (entry.pvo & MessageTag::kProbe) != 0 ||
      entry.bytes > nic.receive.slot_bytes()) {
    return false;
  }
  Peer& peer = *pair->peer;
  const auto message = peer.reassembly.OnPacket(entry, payload);
  if (!message.has_value()) return false;
  event = {.type = EventType::kMessage,
           .status = Status::kOk,
           .peer = peer.number,
           .user = 0,
           .bytes = message->size(),
           .data = message->data()};
  if (message->data() == payload) {
    nic.holds_messages = true;
  } else {
    holders_.push_back(&peer);
  }
  return true;
}

void Endpoint::OnControl(Nic& nic, const urnic_rud_receive& entry,
                         const uint8_t* payload) {
  Pair* const pair = FindPair(nic, entry);
  if (pair == nullptr || entry.bytes > nic.receive.slot_bytes() ||
      !handshake_.OnControl(*pair, entry.path, entry.tag,
                            {payload, entry.bytes})) {
    ++core_.stats.bad_control;
    return;
  }
  handshake_.TakeFenced([this](Lane& lane) { recovery_.OnFenced(lane); });
  handshake_.TakeAnswered([this](Path& path) { recovery_.OnAnswer(path); });
}

// --- Entries -----------------------------------------------------------------

[[gnu::always_inline]] inline bool Endpoint::OnEntry(
    Nic& nic, const urnic_rud_receive& entry, const uint8_t* payload,
    Event& event) {
  switch (entry.type) {
    case URNIC_RUD_GOT_COMPLETION:
      OnComplete(nic, entry, UnitKind::kRead);
      return false;
    case URNIC_RUD_GOT_TRANSFER:
      OnComplete(nic, entry, UnitKind::kWrite);
      return false;
    case URNIC_RUD_GOT_STATE:
      OnState(nic, entry);
      return false;
    case URNIC_RUD_GOT_REFUSAL:
      OnRefusal(nic, entry);
      return false;
    case URNIC_RUD_GOT_DATA:
      return OnMessage(nic, entry, payload, event);
    case URNIC_RUD_GOT_PACKET:
      OnControl(nic, entry, payload);
      return false;
    default:
      return false;
  }
}

uint32_t Endpoint::PollNic(Nic& nic, std::span<Event> events) {
  uint32_t count = 0;
  const uint32_t done = core_.operations.done();
  // An entry is a message, or ends one operation. The end of a list ends more;
  // the next Poll() returns those that do not fit.
  while (count + core_.operations.done() - done < events.size()) {
    const urnic_rud_receive* const entry = nic.receive.Front();
    if (entry == nullptr) break;
    if (OnEntry(nic, *entry, nic.receive.FrontSlot(), events[count])) ++count;
    nic.receive.Pop();
  }
  if (!nic.holds_messages) nic.receive.Return();
  return count;
}

}  // namespace urnic::rud::upper
