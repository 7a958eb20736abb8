#include "transport/rud/target.h"

#include "transport/base/mutation.h"
#include "transport/mem/mr_table.h"
#include "transport/rud/headers.h"
#include "transport/rud/membership.h"

namespace urnic::rud {

[[gnu::always_inline]] inline Context* Target::FindContext(
    const RxPacket& packet, RxVerdict& verdict) {
  ContextId id = IdOf(packet.transfer().context);
  if (__builtin_expect(packet.group != nullptr, 0)) {
    const auto own = packet.group->ContextOf(id.number);
    if (!own.has_value()) {
      verdict = RxVerdict::kRudUnknownContext;
      return nullptr;
    }
    id = *own;
  }
  Context* const context = contexts_.Find(id, config_.number, verdict);
  if (context == nullptr) return nullptr;
  // Document C: a packet with a tid less than that of the context is stale, and
  // is discarded.
  MUTATION_SKIPS(rud_takes_stale_packets)
  if (packet.transfer().tid.value() < context->tid) {
    verdict = RxVerdict::kRudStale;
    return nullptr;
  }
  return context;
}

RxVerdict Target::TakeData(const RxPacket& packet) {
  const bool to_fifo = (packet.base->flags & wire::kRudToFifo) != 0;
  // The sender does not ask for a notification, so no context tracks this
  // packet. The answer to a read is always tracked.
  if (to_fifo && packet.base->notify == 0 &&
      (packet.base->flags & wire::kRudAnswersRead) == 0) {
    return PushData(packet);
  }
  RxVerdict verdict = RxVerdict::kAccept;
  Context* const context = FindContext(packet, verdict);
  if (context == nullptr) return verdict;
  verdict = Follow(*context, packet);
  if (verdict != RxVerdict::kAccept) return verdict;
  const uint64_t bit = uint64_t{1} << packet.data().number;
  if ((context->arrived & bit) != 0) return RxVerdict::kRudDuplicate;
  // A packet that finds the FIFO full has not arrived.
  verdict = to_fifo            ? PushData(packet)
            : packet.is_list() ? TranslateList(*context, packet)
                               : Translate(*context, packet);
  if (verdict != RxVerdict::kAccept) return verdict;
  begun_ |= context->arrived == 0 && context->owes_target;
  context->arrived |= bit;
  context->path = packet.base->path;
  context->marked |= packet.marked;
  Touch(*context);
  return RxVerdict::kAccept;
}

// The answer to a read must match the place that the owner has requested.
bool Target::IsOfRead(const Context& context, const RxPacket& packet) {
  const wire::RudData& data = packet.data();
  const bool to_fifo = (packet.base->flags & wire::kRudToFifo) != 0;
  return to_fifo == context.to_fifo && !packet.is_list() &&
         data.pvo.value() == context.target_pvo + data.offset.value();
}

[[gnu::always_inline]] inline RxVerdict Target::Follow(Context& context,
                                                       const RxPacket& packet) {
  const wire::RudData& data = packet.data();
  const uint64_t tid = packet.transfer().tid.value();
  const bool is_new = tid != context.tid;
  const bool is_third = packet.type == wire::RudType::kThirdData;
  // A context of the owner's read accepts only answers to this read: no other
  // transfer, no third-party data, nothing from a group.
  if (IsBusy(context)) {
    if (is_new || is_third || packet.group != nullptr || !IsReading(context))
      return RxVerdict::kRudBusy;
    if (!IsOfRead(context, packet)) return RxVerdict::kRudMismatch;
  }
  if (is_new && (TransferOf(tid) != TransferOf(context.tid) ||
                 context.state == ContextState::kIdle ||
                 context.state == ContextState::kAwaiting)) {
    // Document C: a packet with a larger tid is the first of a new transfer,
    // and the context is initialized from it.
    context.BeginReceiving(data.total.value(), data.stride.value(),
                           WishesOf(packet));
  }
  if (context.state == ContextState::kIdle ||
      context.state == ContextState::kAwaiting) {
    return RxVerdict::kRudStale;
  }
  if (context.total != data.total.value() ||
      context.stride != data.stride.value()) {
    return RxVerdict::kRudMismatch;
  }
  context.tid = tid;
  context.other = SenderOf(packet, data.source);
  if (is_third) context.third = ThirdOf(packet);
  if (is_new && context.state != ContextState::kReceiving) {
    // The answer takes the path of this attempt, since that of the last one may
    // be dead.
    MUTATION_SKIPS(rud_answers_along_the_path_of_the_first_attempt)
    context.path = packet.base->path;
    context.marked = packet.marked;
  }
  if (context.state == ContextState::kEnded) {
    // The notice may have been lost.
    if (is_new) notifier_.TellRefusal(context, 0);
    return RxVerdict::kRudEnded;
  }
  if (MUTATION(rud_never_answers_again,
               context.state == ContextState::kReceiving, true))
    return RxVerdict::kAccept;
  if (!is_new) return RxVerdict::kRudDuplicate;
  // Another attempt at a complete transfer: only the answer was lost.
  notifier_.TellComplete(context);
  return RxVerdict::kRudAnsweredAgain;
}

[[gnu::always_inline]] inline RxVerdict Target::Translate(Context& context,
                                                          Pvo pvo,
                                                          const uint8_t* from,
                                                          uint32_t bytes) {
  const uint32_t rights =
      IsReading(context) ? mem::kLocalWrite : mem::kRemoteWrite;
  const PvoTranslation found =
      tces_.CheckAccess(config_.job, pvo, bytes, rights);
  switch (found.fault) {
    case PvoFault::kNone:
      break;
    case PvoFault::kOwner:
      return RxVerdict::kRudForeignTable;
    case PvoFault::kKey:
      failed_ = true;
      return RxVerdict::kRudStaleKey;
    case PvoFault::kBounds:
    case PvoFault::kRights:
      // Document C: a packet that would violate memory protection is
      // discarded, the transfer is never reported complete, and the upper layer
      // is told.
      notifier_.End(context, pvo.value);
      return RxVerdict::kRudAccess;
  }
  if (bytes == 0) return RxVerdict::kAccept;
  Placement& placement = placements_[placement_count_++];
  placement.from_responder = true;
  placement.origin = contexts_.NumberOf(context);
  placement.bytes = bytes;
  placement.target = found.address;
  placement.source = from;
  return RxVerdict::kAccept;
}

[[gnu::always_inline]] inline RxVerdict Target::Translate(
    Context& context, const RxPacket& packet) {
  Pvo pvo = {packet.data().pvo.value()};
  if (__builtin_expect(packet.group != nullptr, 0)) {
    const auto own = packet.group->PvoOf(pvo.value, packet.payload_bytes);
    if (!own.has_value()) {
      notifier_.End(context, pvo.value);
      return RxVerdict::kRudAccess;
    }
    pvo = *own;
  }
  return Translate(context, pvo, packet.payload, packet.payload_bytes);
}

// Checks all writes before the first is placed.
RxVerdict Target::TranslateList(Context& context, const RxPacket& packet) {
  const uint8_t* const end = packet.payload + packet.payload_bytes;
  for (const wire::RudListEntry* write = &packet.first_write();
       reinterpret_cast<const uint8_t*>(write) != end; write = &write->next()) {
    const RxVerdict verdict = Translate(context, {write->pvo.value()},
                                        write->data(), write->bytes.value());
    if (verdict != RxVerdict::kAccept) return verdict;
  }
  return RxVerdict::kAccept;
}

void Target::OnPlacementFault(const Placement& placement) {
  Context& context = contexts_.At(placement.origin);
  // The same burst may have begun another transfer.
  if (TransferOf(context.tid) != TransferOf(tids_[placement.packet])) return;
  if (context.state == ContextState::kReceiving) notifier_.End(context, 0);
}

[[gnu::always_inline]] inline void Target::Touch(Context& context) {
  if (context.touched) return;
  context.touched = true;
  touched_[touched_count_++] = contexts_.NumberOf(context);
}

void Target::FinishBurst() {
  for (uint32_t i = 0; i < touched_count_; ++i) {
    Context& context = contexts_.At(touched_[i]);
    context.touched = false;
    if (context.state != ContextState::kReceiving) continue;
    if (MUTATION(rud_completes_with_the_last_packet,
                 context.arrived != wire::RudAllPackets(context.packets),
                 (context.arrived >> (context.packets - 1)) == 0))
      continue;
    context.state = ContextState::kReceived;
    context.is_own = false;
    notifier_.TellComplete(context);
    conditions_.Count(context.was_asked ? context.counter : context.arrivals);
  }
  touched_count_ = 0;
}

RxVerdict Target::PushData(const RxPacket& packet) {
  const wire::RudData& data = packet.data();
  urnic_rud_receive entry = {};
  entry.type = URNIC_RUD_GOT_DATA;
  entry.number = data.number;
  entry.stride = data.stride.value();
  entry.context = IdOf(data.source).value();
  entry.tid = packet.transfer().tid.value();
  entry.total = data.total.value();
  entry.offset = data.offset.value();
  entry.pvo = data.pvo.value() - data.offset.value();
  return Push(entry, packet);
}

RxVerdict Target::OnPacket(const RxPacket& packet) {
  urnic_rud_receive entry = {};
  entry.type = URNIC_RUD_GOT_PACKET;
  static_assert(sizeof(entry.tag) == sizeof(wire::RudTag));
  std::memcpy(entry.tag, packet.tag().bytes, sizeof(entry.tag));
  const RxVerdict verdict = Push(entry, packet);
  if (verdict == RxVerdict::kAccept) conditions_.CountPacket();
  return verdict;
}

RxVerdict Target::Push(urnic_rud_receive entry, const RxPacket& packet) {
  if (packet.payload_bytes > fifo_.slot_bytes()) return RxVerdict::kRudTooLong;
  entry.flags = packet.marked ? URNIC_RUD_MARKED : 0;
  entry.path = packet.base->path;
  entry.bytes = static_cast<uint16_t>(packet.payload_bytes);
  entry.source_window = packet.base->sender_window();
  entry.peer = packet.peer;
  // Document C: when the receive FIFO is full, packets are discarded silently.
  return fifo_.Push(entry, {packet.payload, packet.payload_bytes})
             ? RxVerdict::kAccept
             : RxVerdict::kRudFifoFull;
}

RxVerdict Target::OnStateRequest(const RxPacket& packet) {
  RxVerdict verdict = RxVerdict::kAccept;
  Context* const context = FindContext(packet, verdict);
  if (context == nullptr) return verdict;
  if (IsBusy(*context)) return RxVerdict::kRudBusy;
  const uint64_t tid = packet.transfer().tid.value();
  MUTATION_SKIPS(rud_tells_the_state_of_another_transfer)
  if (TransferOf(tid) != TransferOf(context->tid)) {
    context->state = ContextState::kIdle;
    // They belong to an earlier transfer of the owner.
    context->counted = context->to_group = false;
  }
  // The bits belong to an earlier transfer.
  if (context->state == ContextState::kIdle ||
      context->state == ContextState::kAwaiting) {
    context->arrived = 0;
  }
  context->tid = tid;
  const Party asker = SenderOf(packet, packet.asker());
  const bool by_third = context->state != ContextState::kIdle &&
                        (context->notify & wire::kRudNotifyThird) != 0 &&
                        context->third.IsFrom(asker.peer, asker.window);
  (by_third ? context->third : context->other) = asker;
  context->path = packet.base->path;
  // The asker wants an answer, whatever the first attempt wanted.
  if (!by_third) context->notify |= wire::kRudNotifySource;
  MUTATION_SKIPS(rud_says_that_all_is_there_before_it_is_complete)
  if (context->state == ContextState::kReceiving &&
      context->arrived == wire::RudAllPackets(context->packets)) {
    // The end of the burst reports the completion.
    return RxVerdict::kAccept;
  }
  context->marked = packet.marked;
  if (context->state == ContextState::kReceived) {
    notifier_.TellComplete(*context);
    return RxVerdict::kRudAnsweredAgain;
  }
  const bool ended = context->state == ContextState::kEnded;
  notifier_.TellState(
      *context, asker,
      ended ? wire::RudReason::kAccess : wire::RudReason::kState, 0);
  return RxVerdict::kAccept;
}

}  // namespace urnic::rud
