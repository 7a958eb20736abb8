#include "datapath/engine/rc_input_tap.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "transport/base/mutation.h"
#include "transport/rc/image.h"

namespace urnic {
namespace {

using rc::Input;

bool TakesReceive(const RxPacket& packet) {
  return packet.info->kind == wire::PacketKind::kSend || packet.info->has_imm;
}

}  // namespace

RcInputTap::RcInputTap(std::shared_ptr<InputLog> log, rc::Qp* core, Time now)
    : InputTap(std::move(log), &core->send_state().sq, core->send_state().mrs),
      core_(*core) {
  Begin(now);
}

// --- Segments ----------------------------------------------------------------

// An image cannot express packets that are held back, a queue pair that waits
// for its path, or an overdue timer.
bool RcInputTap::CanBeginSegment(Time now) const {
  const rc::SendState& send = core_.send_state();
  return send.recovery == nullptr && !core_.responder().holds() &&
         send.granted == 0 && !send.pace_waiting && send.NextDeadline() >= now;
}

void RcInputTap::Begin(Time now) {
  SetNow(now);
  if (IsTimeForSegment() && CanBeginSegment(now)) BeginSegment(now);
  Prepare();
}

void RcInputTap::BeginSegment(Time now) {
  StartSegment(rc::kInputLayout);
  core_.ForgetWhatImagesOmit();
  core_.Grant(0);  // the path counts what is in flight now, as in a replay
  const CallNow call = call_now();
  AddImage(BodyOf(call), [&](std::span<uint8_t> to) {
    return rc::ExtractImage(core_, now, to);
  });
  const RecvQueue& receives = core_.responder().recv_queue();
  for (const urnic_sge& sge : receives.current()) NoteKey(MrKey{sge.lkey});
  NoteKey(core_.responder().write_key());
  core_.responder().replay().VisitKeys([&](MrKey key) { NoteKey(key); });
  path_known_ = false;
  BeginRequests(core_.send_state().assigned);
  EndBeginning();
}

// --- What calls read ---------------------------------------------------------

void RcInputTap::Prepare() {
  MUTATION_SKIPS(inputs_forget_paths)
  AddPath(core_.send_state().path);
  AddChangedKeys();
  // In ERR all posted requests are flushed. Otherwise calls only look whether
  // there is more to send.
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

// Remembers how the call has left the path, so that the next call only logs the
// changes of others.
void RcInputTap::NotePath() {
  const cc::SharedPath* const path = core_.send_state().path;
  if (path != nullptr) path_ = rc::PathNow(*path);
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

// Logs the next entries of the receive ring: as many as these packets can use,
// and those that messages behind a gap may use.
void RcInputTap::AddReceives(std::span<const RxPacket> packets) {
  if (std::ranges::none_of(packets, TakesReceive)) return;
  const RecvRing* const ring = core_.responder().recv_queue().ring();
  if (ring == nullptr) return;
  const bool ahead = core_.responder().holds();
  const size_t most = packets.size() + 1 + (ahead ? rc::kGapMax : 0);
  BeginReceives();
  for (uint32_t i = 0; i < most && AddReceive(*ring, i, i); ++i) {
  }
}

// --- Calls -------------------------------------------------------------------

void RcInputTap::CallWith(Input call, uint8_t small, const QpConfig& config) {
  rc::ConfigNow now;
  now.call = call_now();
  now.config = config;
  Call(call, {.small = small}, now);
}

void RcInputTap::End() { (void)End(FlowResult{.state = core_.state()}); }

FlowResult RcInputTap::End(const FlowResult& result) {
  // The requests that were flushed because the queue pair failed in this call,
  // or that the call has begun.
  const rc::SendState& send = core_.send_state();
  AddRequests(send.head);
  AddRequests(send.next);
  EndCall(ResultNow(result));
  NotePath();
  return result;
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
  // RESET and ERR discard all posted requests.
  AddRequests(Producer());
  CallWith(Input::kModify, static_cast<uint8_t>(target), config);
  core_.Modify(target, config);
  // RESET discards the posted requests.
  if (target == QpState::kReset) ForgetRequests();
  End();
}

void RcInputTap::Reconfigure(const QpConfig& config) {
  Prepare();
  CallWith(Input::kReconfigure, 0, config);
  core_.Reconfigure(config);
  End();
}

void RcInputTap::Join(cc::SharedPath* path) {
  // Log that it leaves its path, and then that it joins the other one: a replay
  // has only one path.
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
