#include "datapath/engine/rc_input_tap.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "transport/rc/image.h"

namespace urnic {
namespace {

using rc::Input;

constexpr size_t kKeysMax = 1024;
constexpr uint64_t kCallsLeast = 64;

// The entry of a send ring without what its request does not use.
std::span<const uint8_t> UsedOf(std::span<const uint8_t> entry,
                                const urnic_sq_wqe& wqe) {
  const size_t tail = (wqe.flags & URNIC_SEND_INLINE) != 0
                          ? wqe.inline_bytes
                          : wqe.num_sge * sizeof(urnic_sge);
  return entry.first(std::min(entry.size(), sizeof(wqe) + tail));
}

bool TakesReceive(const RxPacket& packet) {
  return packet.info->kind == wire::PacketKind::kSend || packet.info->has_imm;
}

}  // namespace

RcInputTap::RcInputTap(std::shared_ptr<InputLog> log, rc::Qp* core, Time now)
    : log_(std::move(log)), core_(*core), now_ns_(now.ns()) {
  keys_.reserve(kKeysMax);
  originals_.reserve(kRunMax);
  log_->DemandSegment();
  Begin(now);
}

uint32_t RcInputTap::Producer() const {
  const rc::SendState& send = core_.send_state();
  const uint32_t posted =
      send.sq.entries() == 0 ? 0 : send.sq.Posted(send.head);
  return send.head + (posted == UINT32_MAX ? 0 : posted);
}

// --- Segments ----------------------------------------------------------------

// An image does not carry packets that are held, nor how a queue pair waits for
// its path, nor how late its timer is.
bool RcInputTap::CanBeginSegment(Time now) const {
  const rc::SendState& send = core_.send_state();
  return send.recovery == nullptr && !core_.responder().holds() &&
         send.granted == 0 && !send.pace_waiting && send.NextDeadline() >= now;
}

void RcInputTap::Begin(Time now) {
  now_ns_ = now.ns();
  // A log that is too small is not begun again at each call: that costs more
  // than the call.
  const bool is_time = !started_ || calls_ >= kCallsLeast;
  if (log_->WantsSegment() && is_time && CanBeginSegment(now))
    BeginSegment(now);
  Prepare();
}

void RcInputTap::BeginSegment(Time now) {
  // One without calls is of no use, and the one before it may be.
  log_->BeginSegment(rc::kInputLayout, !started_ || whole_calls_ != 0);
  started_ = true;
  calls_ = whole_calls_ = 0;
  core_.ForgetWhatImagesOmit();
  core_.Grant(0);  // the path counts what is under way now, as in a replay
  image_.clear();
  AppendImageTo(image_, [&](std::span<uint8_t> to) {
    return rc::ExtractImage(core_, now, to);
  });
  const rc::CallNow call = {now_ns_};
  Add(Input::kImage, {.body = BodyOf(call)},
      {reinterpret_cast<const uint8_t*>(image_.data()), image_.size()});
  keys_.clear();
  const RecvQueue& receives = core_.responder().recv_queue();
  for (const urnic_sge& sge : receives.current()) NoteKey(MrKey{sge.lkey});
  NoteKey(core_.responder().write_key());
  core_.responder().replay().VisitKeys([&](MrKey key) { NoteKey(key); });
  path_known_ = false;
  requests_end_ = core_.send_state().head;
  AddRequests(core_.send_state().assigned);
  log_->EndBeginning();
}

// --- What calls read ---------------------------------------------------------

void RcInputTap::Prepare() {
  AddPath(core_.send_state().path);
  AddChangedKeys();
  // In ERR all that is posted is flushed. Otherwise it matters whether there is
  // more to send.
  if (core_.state() == QpState::kErr) return AddRequests(Producer());
  AddRequestsFor(0);
}

void RcInputTap::AddPath(const cc::SharedPath* path) {
  if (path == nullptr) return;
  const rc::PathNow now(*path);
  if (!path_known_) {
    path_known_ = true;
    Add(Input::kPath, {.body = BodyOf(now)});
    return;
  }
  rc::WordNow changed[std::size(now.words)];
  uint32_t count = 0;
  for (size_t i = 0; i < std::size(now.words); ++i) {
    if (now.words[i] != path_.words[i]) changed[count++] = {i, now.words[i]};
  }
  if (count == 0) return;
  Add(Input::kPathWords, {.body = {reinterpret_cast<const uint8_t*>(changed),
                                   count * sizeof(changed[0])}});
}

// What the call leaves is not news for the next one.
void RcInputTap::NotePath() {
  const cc::SharedPath* const path = core_.send_state().path;
  if (path != nullptr) path_ = rc::PathNow(*path);
}

void RcInputTap::AddChangedKeys() {
  const mem::MrTable& table = *core_.send_state().mrs;
  if (std::exchange(key_changes_, table.changes()) == table.changes()) return;
  std::erase_if(keys_, [&](mem::MemoryRegion& known) {
    const mem::MemoryRegion* const now = table.FindAnyVariant(MrKey{known.key});
    if (now == nullptr) {
      Add(Input::kKeyGone, {.large = known.key});
      return true;
    }
    if (std::memcmp(&known, now, sizeof(known)) != 0) {
      std::memcpy(static_cast<void*>(&known), now, sizeof(known));
      Add(Input::kKey, {.body = BodyOf(known)});
    }
    return false;
  });
}

void RcInputTap::NoteKey(MrKey key) {
  const auto is_known = [&](const mem::MemoryRegion& known) {
    return NumberOfKey(known.key) == NumberOfKey(key.value);
  };
  if (std::ranges::any_of(keys_, is_known)) return;
  const mem::MemoryRegion* const found =
      core_.send_state().mrs->FindAnyVariant(key);
  if (found == nullptr) return;
  Add(Input::kKey, {.body = BodyOf(*found)});
  if (keys_.size() < kKeysMax) {
    keys_.push_back(*found);
  } else {
    keys_[next_key_++ % kKeysMax] = *found;
  }
}

void RcInputTap::NoteKeysOf(std::span<const uint8_t> sges, uint32_t count) {
  for (; count != 0 && sges.size() >= sizeof(urnic_sge);
       --count, sges = sges.subspan(sizeof(urnic_sge))) {
    urnic_sge sge;
    std::memcpy(&sge, sges.data(), sizeof(sge));
    NoteKey(MrKey{sge.lkey});
  }
}

// Those that a call can look at which sends so many packets. (Local requests
// need none.) What else is posted is logged when it is needed.
void RcInputTap::AddRequestsFor(uint32_t packets) {
  constexpr uint32_t kLocal = 64;
  const uint32_t posted = Producer() - core_.send_state().next;
  if (static_cast<int32_t>(posted) <= 0) return;
  AddRequests(core_.send_state().next + std::min(posted, packets + kLocal));
}

void RcInputTap::AddRequests(uint32_t end) {
  const WorkQueueView& sq = core_.send_state().sq;
  for (; static_cast<int32_t>(end - requests_end_) > 0; ++requests_end_) {
    const auto wqe = sq.Read<urnic_sq_wqe>(requests_end_);
    const auto entry = UsedOf(sq.BytesOf(requests_end_), wqe);
    if ((wqe.flags & URNIC_SEND_INLINE) == 0)
      NoteKeysOf(entry.subspan(sizeof(wqe)), wqe.num_sge);
    // Local requests name keys in these fields; what is none is not found.
    for (const uint32_t key : {wqe.imm_or_key, wqe.rkey, wqe.xrc_srqn})
      NoteKey(MrKey{key});
    Add(Input::kRequest, {.large = requests_end_, .body = entry});
  }
}

void RcInputTap::AddPackets(std::span<const RxPacket> packets) {
  for (const RxPacket& packet : packets) {
    const wire::OpcodeInfo& info = *packet.info;
    if (info.kind == wire::PacketKind::kAtomic)
      NoteKey(MrKey{packet.atomic_eth().rkey.value()});
    if (info.has_reth) NoteKey(MrKey{packet.reth().rkey.value()});
    if (info.has_ieth) NoteKey(MrKey{packet.ieth().rkey.value()});
    const auto* const begin = reinterpret_cast<const uint8_t*>(packet.bth);
    const auto bytes =
        static_cast<uint32_t>(packet.payload - begin) + packet.payload_bytes;
    Add(Input::kPacket,
        {.small = static_cast<uint8_t>(packet.framing),
         .large = bytes,
         .body = {begin, info.has_payload
                             ? std::min(bytes, rc::kPacketBytesKept)
                             : bytes}});
  }
}

// The next entries of the receive ring: as many as these packets can use, and
// those that a message behind a gap may look at.
void RcInputTap::AddReceives(std::span<const RxPacket> packets) {
  if (std::ranges::none_of(packets, TakesReceive)) return;
  const RecvRing* const ring = core_.responder().recv_queue().ring();
  if (ring == nullptr) return;
  const bool ahead = core_.responder().holds();
  const size_t most = packets.size() + 1 + (ahead ? rc::kGapMax : 0);
  Add(Input::kNoReceives, {});
  for (uint32_t i = 0; i < most; ++i) {
    const auto entry = ring->BytesOf(i);
    if (entry.empty()) break;
    urnic_rq_wqe wqe;
    std::memcpy(&wqe, entry.data(), sizeof(wqe));
    NoteKeysOf(entry.subspan(sizeof(wqe)), wqe.num_sge);
    Add(Input::kReceive, {.body = entry});
  }
}

// --- Calls -------------------------------------------------------------------

void RcInputTap::Call(Input call, uint8_t small, uint32_t large) {
  ++calls_;
  const rc::CallNow now = {now_ns_};
  Add(call, {.small = small, .large = large, .body = BodyOf(now)});
}

void RcInputTap::Call(Input call, uint8_t small, const QpConfig& config) {
  ++calls_;
  rc::ConfigNow now;
  now.call.ns = now_ns_;
  now.config = config;
  Add(call, {.small = small, .body = BodyOf(now)});
}

void RcInputTap::End() { (void)End(FlowResult{.state = core_.state()}); }

FlowResult RcInputTap::End(const FlowResult& result) {
  // What was flushed because the call failed, or was begun nevertheless.
  const rc::SendState& send = core_.send_state();
  for (const uint32_t end : {send.head, send.next}) {
    if (static_cast<int32_t>(end - requests_end_) > 0) AddRequests(end);
  }
  rc::ResultNow now;
  now.deadline_ns = result.deadline.ns();
  now.sq_producer = requests_end_;
  now.state = result.state;
  now.event = result.event;
  Add(Input::kResult, {.body = BodyOf(now)});
  if (log_->lost() == 0) ++whole_calls_;
  NotePath();
  return result;
}

void RcInputTap::AddFault(const Placement& placement) {
  Add(Input::kFault,
      {.small = placement.from_responder ? uint8_t{1} : uint8_t{0},
       .medium = placement.packet,
       .body = BodyOf(placement.target)});
}

void RcInputTap::AddOriginals() {
  for (const uint64_t* const original : originals_)
    Add(Input::kOriginal, {.body = BodyOf(*original)});
  originals_.clear();
}

void RcInputTap::AddSent(std::span<const TxSlot> slots) {
  for (const TxSlot& slot : slots) {
    const rc::SentNow sent(slot);
    Add(Input::kSent, {.body = BodyOf(sent)});
  }
}

void RcInputTap::OnMarked(const RxPacket& packet, Time now) {
  Begin(now);
  AddPackets({&packet, 1});
  Call(Input::kMarked);
  core_.OnMarked(packet, now);
  End();
}

RxVerdict RcInputTap::OnCnp(Time now) {
  Begin(now);
  Call(Input::kCnp);
  const RxVerdict verdict = core_.OnCnp(now);
  End();
  return verdict;
}

void RcInputTap::OnOutage() {
  Prepare();
  Call(Input::kOutage);
  core_.OnOutage();
  End();
}

uint32_t RcInputTap::Transmit(Time now, std::span<TxSlot> slots) {
  Begin(now);
  AddRequestsFor(static_cast<uint32_t>(slots.size()));
  Call(Input::kTransmit, 0, static_cast<uint32_t>(slots.size()));
  const uint32_t count = core_.Transmit(now, slots);
  AddSent(slots.first(count));
  End();
  return count;
}

uint32_t RcInputTap::TransmitResponses(std::span<TxSlot> slots) {
  Prepare();
  Call(Input::kTransmitResponses, 0, static_cast<uint32_t>(slots.size()));
  const uint32_t count = core_.TransmitResponses(slots);
  AddSent(slots.first(count));
  End();
  return count;
}

void RcInputTap::OnGatherFault(const TxSlot& slot) {
  Prepare();
  Call(Input::kGatherFault, slot.from_responder ? 1 : 0, slot.origin);
  core_.OnGatherFault(slot);
  End();
}

void RcInputTap::Modify(QpState target, const QpConfig& config) {
  Prepare();
  // RESET and ERR drop all that is posted.
  AddRequests(Producer());
  Call(Input::kModify, static_cast<uint8_t>(target), config);
  core_.Modify(target, config);
  // RESET drops what was posted.
  if (target == QpState::kReset) requests_end_ = core_.send_state().head;
  End();
}

void RcInputTap::Reconfigure(const QpConfig& config) {
  Prepare();
  Call(Input::kReconfigure, 0, config);
  core_.Reconfigure(config);
  End();
}

void RcInputTap::Join(cc::SharedPath* path) {
  // It leaves one path, and then joins the other: a replay has only one.
  Prepare();
  Call(Input::kJoin, 0);
  core_.Join(nullptr);
  End();
  path_known_ = false;
  if (path == nullptr) return;
  AddPath(path);
  Call(Input::kJoin, 1);
  core_.Join(path);
  End();
}

void RcInputTap::Grant(uint32_t packets) {
  Prepare();
  Call(Input::kGrant, 0, packets);
  core_.Grant(packets);
  End();
}

void RcInputTap::OnReplaySlots(uint32_t slots) {
  Prepare();
  Call(Input::kReplaySlots, 0, slots);
  End();
}

}  // namespace urnic
