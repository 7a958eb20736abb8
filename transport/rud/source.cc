#include "transport/rud/source.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "transport/base/mutation.h"
#include "transport/mem/mr_table.h"
#include "transport/rud/data_headers.h"
#include "transport/rud/headers.h"
#include "transport/wire/appender.h"

namespace urnic::rud {

using wire::Be;
using wire::RudType;

// --- Read requests -----------------------------------------------------------

RxVerdict Source::OnReadRequest(const RxPacket& packet) {
  RxVerdict verdict = RxVerdict::kAccept;
  Context* const context =
      contexts_.Find(IdOf(packet.transfer().context), config_.number, verdict);
  if (context == nullptr) return verdict;
  // Document C: a read request is dropped silently if its context is busy.
  if (IsBusy(*context)) return RxVerdict::kRudBusy;
  // Document C: a read request is ignored if its tid is not larger than that of
  // the context.
  const uint64_t tid = packet.transfer().tid.value();
  if (tid <= context->tid) return RxVerdict::kRudStale;
  const wire::RudRead& read = packet.read();
  if (read.stride.value() > config_.max_payload) return RxVerdict::kRudTooLong;
  const PvoTranslation found =
      tces_.CheckAccess(config_.job, {read.source_pvo.value()},
                        read.total.value(), mem::kRemoteRead);
  if (found.fault == PvoFault::kOwner) return RxVerdict::kRudForeignTable;
  if (found.fault == PvoFault::kKey) {
    failed_ = true;
    return RxVerdict::kRudStaleKey;
  }
  context->tid = tid;
  context->path = packet.base->path;
  // Document C: the source of a third-party read swaps the ids: the data goes
  // to the target in the new field of the header, which is told who has asked.
  const bool is_third = HasThird(packet.type);
  if (is_third) {
    const wire::RudThird& target = packet.third();
    context->other = {packet.third_peer, target.number(), IdOf(read.target)};
    MUTATION_ADDS(rud_sends_third_party_data_to_who_has_asked,
                  context->other = SenderOf(packet, read.target);)
    context->third = SenderOf(packet, target.context);
  } else {
    context->other = SenderOf(packet, read.target);
    context->third = {};
  }
  context->marked = packet.marked;
  context->counter = 0;
  context->counted = context->count_only = context->to_group = false;
  if (found.fault != PvoFault::kNone) {
    context->state = ContextState::kEnded;
    context->arrived = 0;
    notifier_.TellState(*context, AskerOf(*context), wire::RudReason::kAccess,
                        read.source_pvo.value());
    return RxVerdict::kRudAccess;
  }
  context->state = ContextState::kSending;
  context->notify = WishesOf(packet);
  context->to_fifo = (packet.base->flags & wire::kRudToFifo) != 0;
  context->total = read.total.value();
  context->stride = read.stride.value();
  context->source_pvo = read.source_pvo.value();
  context->target_pvo = read.target_pvo.value();
  context->unsent = read.packets.value();
  AddRead(*context);
  return RxVerdict::kAccept;
}

const Party& Source::AskerOf(const Context& context) {
  return context.third.peer != 0 ? context.third : context.other;
}

void Source::AddRead(Context& context) {
  const uint32_t number = contexts_.NumberOf(context);
  if (reads_++ == 0) {
    first_read_ = number;
  } else {
    contexts_.At(last_read_).next = number;
  }
  last_read_ = number;
}

void Source::RemoveFirstRead() {
  first_read_ = contexts_.At(first_read_).next;
  --reads_;
}

void Source::Forget(uint32_t context) {
  if (contexts_.At(context).state != ContextState::kSending) return;
  for (uint32_t i = reads_; i != 0; --i) {
    Context& first = contexts_.At(first_read_);
    RemoveFirstRead();
    if (contexts_.NumberOf(first) != context) AddRead(first);
  }
  contexts_.At(context).state = ContextState::kEnded;
}

void Source::ForgetAll() {
  answers_.Clear();
  while (reads_ != 0) {
    contexts_.At(first_read_).state = ContextState::kEnded;
    RemoveFirstRead();
  }
}

// --- Answers to us -----------------------------------------------------------

urnic_rud_receive Source::AnswerOf(const RxPacket& packet,
                                   Context& context) const {
  context.other.peer = packet.peer;
  context.other.window = packet.base->sender_window();
  context.marked = (packet.base->flags & wire::kRudMarked) != 0;
  return notifier_.EntryOf(context, URNIC_RUD_GOT_COMPLETION);
}

RxVerdict Source::OnCompletions(const RxPacket& packet) {
  RxVerdict verdict = RxVerdict::kAccept;
  for (uint32_t i = 0; i < packet.completions(); ++i) {
    const wire::RudCompletion& done = packet.completion(i);
    Context* const context = contexts_.Find(IdOf(done.source), config_.number);
    if (context == nullptr) {
      verdict = RxVerdict::kRudUnknownContext;
      continue;
    }
    // Document C: the upper layer ignores completions with stale tids. Here
    // those are of another transfer: an older attempt that is complete is as
    // good as the last one.
    if (MUTATION(rud_believes_stale_completions,
                 TransferOf(context->tid) != TransferOf(done.tid.value()),
                 false) ||
        context->state != ContextState::kAwaiting) {
      verdict = RxVerdict::kRudStale;
      continue;
    }
    context->path = done.path;
    // Counts even if the FIFO is full. When another attempt completes, the
    // program is told again, but nothing is counted.
    if (context->counter != 0 &&
        MUTATION(rud_counts_each_completion,
                 !std::exchange(context->counted, true), true))
      conditions_.Count(context->counter);
    const urnic_rud_receive entry = AnswerOf(packet, *context);
    if (MUTATION(rud_first_member_ends_the_wait, context->to_group, false)) {
      // Other members will answer, too.
      if (!receive_.Push(entry, {})) verdict = RxVerdict::kRudFifoFull;
    } else if (context->count_only || receive_.Push(entry, {})) {
      context->state = ContextState::kIdle;
      context->is_own = false;
    } else {
      verdict = RxVerdict::kRudFifoFull;
    }
  }
  return verdict;
}

RxVerdict Source::OnNotice(const RxPacket& packet) {
  const wire::RudNotice& notice = packet.notice();
  Context* const context =
      contexts_.Find(IdOf(packet.transfer().context), config_.number);
  if (context == nullptr) return RxVerdict::kRudUnknownContext;
  const bool refused =
      notice.reason == static_cast<uint8_t>(wire::RudReason::kAccess);
  const bool expected = context->state == ContextState::kAwaiting ||
                        (refused && IsReading(*context));
  // Members of a group are asked one after the other, so the tid of an answer
  // may be older than that of the context.
  const uint64_t tid = packet.transfer().tid.value();
  const bool is_late = MUTATION(rud_takes_the_answer_to_the_last_question_only,
                                context->to_group, false)
                           ? TransferOf(context->tid) != TransferOf(tid)
                           : context->tid != tid;
  if (!expected || is_late) return RxVerdict::kRudStale;
  context->path = packet.base->path;
  urnic_rud_receive entry = AnswerOf(packet, *context);
  entry.type = refused ? URNIC_RUD_GOT_REFUSAL : URNIC_RUD_GOT_STATE;
  // For a group, this is not always the context's tid.
  MUTATION_SKIPS(rud_tells_a_state_of_the_last_attempt)
  entry.tid = tid;
  entry.arrived = notice.arrived.value();
  entry.pvo = notice.pvo.value();
  if (!receive_.Push(entry, {})) return RxVerdict::kRudFifoFull;
  if (refused && !MUTATION(rud_refusal_of_a_member_ends_the_wait,
                           context->to_group, false)) {
    context->state = ContextState::kEnded;
    context->is_own = false;
  }
  return RxVerdict::kAccept;
}

// --- Sending -----------------------------------------------------------------

wire::RudBase Source::BaseOf(RudType type, uint32_t window,
                             uint8_t path) const {
  wire::RudBase base;
  base.SetType(type);
  base.path = path;
  base.job = Be<uint32_t>(config_.job);
  base.window = Be<uint32_t>(window);
  base.source_window = Be<uint32_t>(config_.number);
  return base;
}

wire::RudBase Source::BaseOf(RudType type) const {
  wire::RudBase base = BaseOf(type, command_.window, command_.path);
  base.notify = command_.notify;
  return base;
}

wire::RudBase Source::BaseOf(RudType type, const Answer& answer) const {
  wire::RudBase base = BaseOf(type, answer.to.window, answer.path);
  base.flags = answer.marked ? wire::kRudMarked : 0;
  return base;
}

[[gnu::always_inline]] inline bool Source::SendAnswer(TxPacket& out) {
  if (answers_.empty()) return false;
  const Answer& first = answers_.Front();
  out.peer = first.to.peer;
  out.path = first.path;
  out.context = TxPacket::kNoContext;
  out.payload_bytes = 0;
  if (first.is_notice) {
    SendNotice(out);
  } else {
    SendCompletions(out);
  }
  return true;
}

// The link can carry max_payload bytes behind the longest headers.
uint32_t Source::CompletionsThatFit() const {
  constexpr uint32_t kHeaders =
      wire::kRudMaxHeaderBytes - sizeof(wire::RudBase);
  return std::min<uint32_t>(
      wire::kRudMaxCompletions,
      (config_.max_payload + kHeaders) / sizeof(wire::RudCompletion));
}

// Packs completions with the same window and path into one packet: a completion
// on another path would give a wrong round trip.
void Source::SendCompletions(TxPacket& out) {
  // This reference stays valid, because nothing is added meanwhile.
  const Answer& first = answers_.Front();
  wire::RudBase base = BaseOf(RudType::kCompletion, first);
  wire::Appender appender(out.headers + sizeof(base));
  for (uint32_t i = 0; i < CompletionsThatFit() && !answers_.empty(); ++i) {
    const Answer& answer = answers_.Front();
    if (answer.is_notice || !answer.to.IsFrom(first.to.peer, first.to.window) ||
        answer.path != first.path || answer.marked != first.marked) {
      break;
    }
    wire::RudCompletion done;
    done.source = ToWire(answer.to.context);
    done.tid = Be<uint64_t>(answer.tid);
    done.path = answer.path;
    appender.Append(done);
    answers_.Pop();
  }
  base.payload_bytes = Be<uint16_t>(static_cast<uint16_t>(appender.size()));
  std::memcpy(out.headers, &base, sizeof(base));
  out.header_bytes = static_cast<uint16_t>(sizeof(base) + appender.size());
}

void Source::SendNotice(TxPacket& out) {
  const Answer& answer = answers_.Front();
  wire::RudTransfer transfer;
  transfer.context = ToWire(answer.to.context);
  transfer.tid = Be<uint64_t>(answer.tid);
  wire::RudNotice notice;
  notice.sender = ToWire(answer.local);
  notice.reason = static_cast<uint8_t>(answer.reason);
  notice.arrived = Be<uint64_t>(answer.arrived);
  notice.pvo = Be<uint64_t>(answer.pvo);
  wire::Appender appender(out.headers);
  appender.Append(BaseOf(RudType::kNotice, answer));
  appender.Append(transfer);
  appender.Append(notice);
  out.header_bytes = static_cast<uint16_t>(appender.size());
  answers_.Pop();
}

bool Source::SendReadPacket(TxPacket& out) {
  Context& context = contexts_.At(first_read_);
  RemoveFirstRead();
  const auto number = static_cast<uint8_t>(std::countr_zero(context.unsent));
  context.unsent &= context.unsent - 1;
  const ContextId own = {contexts_.NumberOf(context), context.key};
  const bool is_third = context.third.peer != 0;
  // The target of third-party data has not requested it.
  const auto flags = static_cast<uint8_t>(
      is_third
          ? 0
          : wire::kRudAnswersRead | (context.marked ? wire::kRudMarked : 0) |
                (context.to_fifo ? wire::kRudToFifo : 0));
  const uint32_t offset =
      WriteDataHeaders(out,
                       {.type = is_third ? RudType::kThirdData : RudType::kData,
                        .flags = flags,
                        .path = context.path,
                        .notify = context.notify,
                        .job = config_.job,
                        .window = context.other.window,
                        .source_window = config_.number,
                        .to = context.other.context,
                        .from = own,
                        .tid = context.tid,
                        .pvo = context.target_pvo,
                        .total = context.total,
                        .stride = context.stride},
                       number);
  if (is_third) AppendThird(out, context.third);
  out.peer = context.other.peer;
  out.path = context.path;
  out.context = own.number;
  out.tid = context.tid;
  out.payload_in_ring = false;
  // Check again, because the registration may have ended.
  const PvoTranslation found =
      tces_.CheckAccess(config_.job, {context.source_pvo + offset},
                        out.payload_bytes, mem::kRemoteRead);
  if (found.fault != PvoFault::kNone) {
    EndRead(context);
    return false;
  }
  out.payload = found.address;
  if (context.unsent != 0) {
    AddRead(context);
  } else {
    context.state = (context.notify & wire::kRudNotifySource) != 0
                        ? ContextState::kAwaiting
                        : ContextState::kIdle;
  }
  return true;
}

uint32_t Source::Transmit(std::span<TxPacket> packets) {
  uint32_t count = 0;
  uint32_t without_packet = 0;  // commands, which also cost time
  while (count < packets.size() && !failed_) {
    TxPacket& out = packets[count];
    out.third_peer = 0;
    if (SendAnswer(out)) {
      ++count;
      continue;
    }
    // Reads and commands take turns.
    reads_turn_ = !reads_turn_;
    if (reads_ != 0 && (reads_turn_ || !HasCommand())) {
      if (SendReadPacket(out)) ++count;
      continue;
    }
    const Step step = SendCommand(out);
    if (step == Step::kPacket) ++count;
    if (step == Step::kDone && ++without_packet == kBurstMax) break;
    if (step == Step::kNothing && reads_ == 0) break;
  }
  return count;
}

void Source::OnGatherFault(const TxPacket& packet) {
  if (packet.context == TxPacket::kNoContext) {
    failed_ = true;
    return;
  }
  Context& context = contexts_.At(packet.context);
  // Another packet of this read has failed, or the context has a newer
  // transfer.
  if (context.tid != packet.tid || context.state == ContextState::kEnded)
    return;
  Forget(packet.context);
  EndRead(context);
}

void Source::EndRead(Context& context) {
  context.unsent = 0;
  context.state = ContextState::kEnded;
  context.arrived = 0;
  notifier_.TellState(context, AskerOf(context), wire::RudReason::kAccess,
                      context.source_pvo);
}

void Source::Flush() {
  if (unsent_ != 0) {
    unsent_ = 0;
    Finish(URNIC_RUD_FLUSHED);
  }
  conditions_.DropAll();
  conditions_.Publish();
  while (send_.Waiting() != 0) send_.Finish(URNIC_RUD_FLUSHED);
  send_.Publish();
  ForgetAll();
}

}  // namespace urnic::rud
