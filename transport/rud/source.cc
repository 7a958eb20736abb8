#include "transport/rud/source.h"

#include <algorithm>
#include <bit>

#include "transport/mem/mr_table.h"
#include "transport/rud/data_headers.h"
#include "transport/wire/appender.h"

namespace urnic::rud {
namespace {

using wire::Be;
using wire::RudType;

constexpr uint8_t kNotifications =
    URNIC_RUD_NOTIFY_SOURCE | URNIC_RUD_NOTIFY_TARGET;
static_assert(URNIC_RUD_NOTIFY_SOURCE == wire::kRudNotifySource);
static_assert(URNIC_RUD_NOTIFY_TARGET == wire::kRudNotifyTarget);

}  // namespace

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
      tces_.Check(config_.job, {read.source_pvo.value()}, read.total.value(),
                  mem::kRemoteRead);
  if (found.fault == PvoFault::kOwner) return RxVerdict::kRudForeignTable;
  if (found.fault == PvoFault::kKey) {
    failed_ = true;
    return RxVerdict::kRudStaleKey;
  }
  context->tid = tid;
  context->path = packet.base->path;
  context->peer = packet.peer;
  context->peer_window = packet.base->sender_window();
  context->peer_context = IdOf(read.target);
  context->marked = packet.marked;
  if (found.fault != PvoFault::kNone) {
    context->state = ContextState::kEnded;
    context->arrived = 0;
    notifier_.TellOther(*context, wire::RudReason::kAccess,
                        read.source_pvo.value());
    return RxVerdict::kRudAccess;
  }
  context->state = ContextState::kSending;
  context->notify = packet.base->notify;
  context->total = read.total.value();
  context->stride = read.stride.value();
  context->source_pvo = read.source_pvo.value();
  context->target_pvo = read.target_pvo.value();
  context->unsent = read.packets.value();
  AddRead(*context);
  return RxVerdict::kAccept;
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
  context.peer = packet.peer;
  context.peer_window = packet.base->sender_window();
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
    if (TransferOf(context->tid) != TransferOf(done.tid.value()) ||
        context->state != ContextState::kAwaiting) {
      verdict = RxVerdict::kRudStale;
      continue;
    }
    context->path = done.path;
    context->peer = packet.peer;
    context->peer_window = packet.base->sender_window();
    context->marked = (packet.base->flags & wire::kRudMarked) != 0;
    if (notifier_.Tell(*context, URNIC_RUD_GOT_COMPLETION, 0)) {
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
  if (!expected || context->tid != packet.transfer().tid.value())
    return RxVerdict::kRudStale;
  context->path = packet.base->path;
  urnic_rud_receive entry = AnswerOf(packet, *context);
  entry.type = refused ? URNIC_RUD_GOT_REFUSAL : URNIC_RUD_GOT_STATE;
  entry.arrived = notice.arrived.value();
  entry.pvo = notice.pvo.value();
  if (!receive_.Push(entry, {})) return RxVerdict::kRudFifoFull;
  if (refused) {
    context->state = ContextState::kEnded;
    context->is_own = false;
  }
  return RxVerdict::kAccept;
}

// --- Commands ----------------------------------------------------------------

[[gnu::always_inline]] inline urnic_rud_status Source::TakeContext(
    Context*& context) {
  context =
      contexts_.Find(ContextId::Of(command_.local_context), config_.number);
  if (context == nullptr) return URNIC_RUD_BAD_CONTEXT;
  if (context->state == ContextState::kSending) return URNIC_RUD_BUSY;
  if (command_.tid <= context->tid) return URNIC_RUD_OLD_TID;
  return URNIC_RUD_SENT;
}

[[gnu::always_inline]] inline urnic_rud_status Source::BeginWrite() {
  if (!wire::RudPacketsFit(command_.packets, command_.bytes, command_.stride) ||
      command_.stride > config_.max_payload) {
    return URNIC_RUD_BAD_REQUEST;
  }
  const bool is_inline = (command_.flags & URNIC_RUD_INLINE_DATA) != 0;
  const bool to_fifo = (command_.flags & URNIC_RUD_TO_FIFO) != 0;
  if (is_inline && command_.bytes > URNIC_RUD_INLINE)
    return URNIC_RUD_BAD_REQUEST;
  Context* context = nullptr;
  if (!to_fifo || command_.notify != 0) {
    const urnic_rud_status status = TakeContext(context);
    if (status != URNIC_RUD_SENT) return status;
  }
  if (!is_inline) {
    const PvoTranslation found = tces_.Check(config_.job, {command_.local_pvo},
                                             command_.bytes, mem::kLocalRead);
    if (found.fault != PvoFault::kNone) return URNIC_RUD_BAD_PVO;
  }
  if (context != nullptr) {
    context->tid = command_.tid;
    context->is_own = (command_.notify & URNIC_RUD_NOTIFY_SOURCE) != 0;
    context->state =
        context->is_own ? ContextState::kAwaiting : ContextState::kIdle;
  }
  unsent_ = command_.packets;
  return URNIC_RUD_SENT;
}

urnic_rud_status Source::BeginRead() {
  if (!wire::RudPacketsFit(command_.packets, command_.bytes, command_.stride) ||
      command_.flags != 0 || command_.stride > config_.max_payload) {
    return URNIC_RUD_BAD_REQUEST;
  }
  Context* context = nullptr;
  const urnic_rud_status status = TakeContext(context);
  if (status != URNIC_RUD_SENT) return status;
  const PvoTranslation found = tces_.Check(config_.job, {command_.local_pvo},
                                           command_.bytes, mem::kLocalWrite);
  if (found.fault != PvoFault::kNone) return URNIC_RUD_BAD_PVO;
  const bool is_same = TransferOf(context->tid) == TransferOf(command_.tid) &&
                       context->target_pvo == command_.local_pvo &&
                       context->total == command_.bytes &&
                       context->stride == command_.stride && context->was_asked;
  const bool goes_on = is_same && IsReading(*context);
  context->tid = command_.tid;
  if (is_same && context->state == ContextState::kReceived) {
    // It was complete before the program knew. The source may have been told:
    // nothing may be placed.
    notifier_.TellComplete(*context);
    return URNIC_RUD_SENT;
  }
  if (!goes_on) {
    context->BeginReceiving(command_.bytes, command_.stride, command_.notify);
  } else if ((command_.packets & ~context->arrived) != 0) {
    // Only what is missing: the program cannot know.
    command_.packets &= ~context->arrived;
  }
  context->is_own = context->was_asked = true;
  context->target_pvo = command_.local_pvo;
  unsent_ = 1;
  return URNIC_RUD_SENT;
}

urnic_rud_status Source::BeginAsking() {
  if (command_.flags != 0 || command_.notify != 0) return URNIC_RUD_BAD_REQUEST;
  Context* context = nullptr;
  const urnic_rud_status status = TakeContext(context);
  if (status != URNIC_RUD_SENT) return status;
  // About what was sent from here, also if an earlier attempt was refused: the
  // program need not know of that yet.
  if ((context->state != ContextState::kAwaiting &&
       context->state != ContextState::kEnded) ||
      TransferOf(context->tid) != TransferOf(command_.tid)) {
    return URNIC_RUD_BAD_CONTEXT;
  }
  context->state = ContextState::kAwaiting;
  context->is_own = true;
  context->tid = command_.tid;
  unsent_ = 1;
  return URNIC_RUD_SENT;
}

[[gnu::always_inline]] inline urnic_rud_status Source::Begin() {
  constexpr uint8_t kFlags = URNIC_RUD_INLINE_DATA | URNIC_RUD_TO_FIFO;
  if ((command_.flags & ~kFlags) != 0 ||
      (command_.notify & ~kNotifications) != 0) {
    return URNIC_RUD_BAD_REQUEST;
  }
  switch (command_.opcode) {
    case URNIC_RUD_PACKET: {
      const bool is_inline = (command_.flags & URNIC_RUD_INLINE_DATA) != 0;
      const uint32_t most =
          is_inline ? URNIC_RUD_INLINE
                    : std::min(send_.slot_bytes(), config_.max_payload);
      if (command_.bytes > most || command_.notify != 0 ||
          (command_.flags & URNIC_RUD_TO_FIFO) != 0) {
        return URNIC_RUD_BAD_REQUEST;
      }
      unsent_ = 1;
      return URNIC_RUD_SENT;
    }
    case URNIC_RUD_WRITE:
      return BeginWrite();
    case URNIC_RUD_READ:
      return BeginRead();
    case URNIC_RUD_ASK_STATE:
      return BeginAsking();
    default:
      return URNIC_RUD_BAD_REQUEST;
  }
}

[[gnu::always_inline]] inline Source::Step Source::SendCommand(TxPacket& out) {
  if (unsent_ == 0) {
    if (send_.Waiting() == 0) return Step::kNothing;
    send_.Read(command_);
    const urnic_rud_status status = Begin();
    if (status != URNIC_RUD_SENT) {
      unsent_ = 0;
      failed_ |= status == URNIC_RUD_BAD_PVO;
      send_.Finish(status);
      return failed_ ? Step::kNothing : Step::kDone;
    }
  }
  const bool sends = unsent_ != 0;
  if (sends && !SendCommandPacket(out)) {
    unsent_ = 0;
    failed_ = true;
    send_.Finish(URNIC_RUD_BAD_PVO);
    return Step::kNothing;
  }
  if (unsent_ == 0) send_.Finish(URNIC_RUD_SENT);
  return sends ? Step::kPacket : Step::kDone;
}

[[gnu::always_inline]] inline bool Source::SendCommandPacket(TxPacket& out) {
  out.peer = command_.peer;
  out.path = command_.path;
  out.context = TxPacket::kNoContext;
  return command_.opcode == URNIC_RUD_WRITE ? SendWritePacket(out)
                                            : SendOtherPacket(out);
}

bool Source::SendOtherPacket(TxPacket& out) {
  unsent_ = 0;
  wire::Appender appender(out.headers);
  wire::RudTransfer transfer;
  transfer.context = ToWire(ContextId::Of(command_.context));
  transfer.tid = Be<uint64_t>(command_.tid);
  out.payload_bytes = 0;
  if (command_.opcode == URNIC_RUD_PACKET) {
    wire::RudBase base = BaseOf(RudType::kFifo);
    base.payload_bytes = Be<uint16_t>(static_cast<uint16_t>(command_.bytes));
    wire::RudTag tag;
    std::memcpy(tag.bytes, command_.tag, sizeof(tag.bytes));
    appender.Append(base);
    appender.Append(tag);
    out.payload = send_.SlotAddress();
    out.payload_bytes = command_.bytes;
    out.payload_in_ring = true;
  } else if (command_.opcode == URNIC_RUD_READ) {
    wire::RudRead read;
    read.source_pvo = Be<uint64_t>(command_.remote_pvo);
    read.target_pvo = Be<uint64_t>(command_.local_pvo);
    read.total = Be<uint32_t>(command_.bytes);
    read.stride = Be<uint16_t>(command_.stride);
    read.target = ToWire(ContextId::Of(command_.local_context));
    read.packets = Be<uint64_t>(command_.packets);
    appender.Append(BaseOf(RudType::kReadRequest));
    appender.Append(transfer);
    appender.Append(read);
  } else {
    appender.Append(BaseOf(RudType::kStateRequest));
    appender.Append(transfer);
    appender.Append(ToWire(ContextId::Of(command_.local_context)));
  }
  out.header_bytes = static_cast<uint16_t>(appender.size());
  const bool is_inline = (command_.flags & URNIC_RUD_INLINE_DATA) != 0;
  if (command_.opcode == URNIC_RUD_PACKET && is_inline) AppendInline(out, 0);
  return true;
}

// The payload of the packet is a part of our copy of the command: it is not
// read again, and it costs no call.
[[gnu::always_inline]] inline void Source::AppendInline(TxPacket& out,
                                                        uint32_t offset) const {
  uint8_t* const to = out.headers + out.header_bytes;
  const uint8_t* const from = command_.data + offset;
  if (out.payload_bytes == sizeof(uint64_t)) {
    std::memcpy(to, from, sizeof(uint64_t));
  } else {
    std::memcpy(to, from, out.payload_bytes);
  }
  out.header_bytes =
      static_cast<uint16_t>(out.header_bytes + out.payload_bytes);
  out.payload_bytes = 0;
}

[[gnu::always_inline]] inline bool Source::SendWritePacket(TxPacket& out) {
  const auto number = static_cast<uint8_t>(std::countr_zero(unsent_));
  unsent_ &= unsent_ - 1;
  const bool to_fifo = (command_.flags & URNIC_RUD_TO_FIFO) != 0;
  const uint32_t offset = WriteDataHeaders(
      out,
      {.flags = static_cast<uint8_t>(to_fifo ? wire::kRudToFifo : 0),
       .path = command_.path,
       .notify = command_.notify,
       .job = config_.job,
       .window = command_.window,
       .source_window = config_.number,
       .to = ContextId::Of(command_.context),
       .from = ContextId::Of(command_.local_context),
       .tid = command_.tid,
       .pvo = command_.remote_pvo,
       .total = command_.bytes,
       .stride = command_.stride},
      number);
  out.payload_in_ring = false;
  if ((command_.flags & URNIC_RUD_INLINE_DATA) != 0) {
    AppendInline(out, offset);
    return true;
  }
  // Again: the registration may have ended since.
  const PvoTranslation found =
      tces_.Check(config_.job, {command_.local_pvo + offset}, out.payload_bytes,
                  mem::kLocalRead);
  out.payload = found.address;
  return found.fault == PvoFault::kNone;
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
  wire::RudBase base = BaseOf(type, answer.window, answer.path);
  base.flags = answer.marked ? wire::kRudMarked : 0;
  return base;
}

[[gnu::always_inline]] inline bool Source::SendAnswer(TxPacket& out) {
  if (answers_.empty()) return false;
  const Answer& first = answers_.Front();
  out.peer = first.peer;
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

// As many as go the same way to the same window: on another path they would say
// something wrong about that of their transfer.
void Source::SendCompletions(TxPacket& out) {
  // Nothing is added meanwhile.
  const Answer& first = answers_.Front();
  wire::RudBase base = BaseOf(RudType::kCompletion, first);
  wire::Appender appender(out.headers + sizeof(base));
  for (uint32_t i = 0; i < wire::kRudMaxCompletions && !answers_.empty(); ++i) {
    const Answer& answer = answers_.Front();
    if (answer.is_notice || answer.peer != first.peer ||
        answer.window != first.window || answer.path != first.path ||
        answer.marked != first.marked) {
      break;
    }
    wire::RudCompletion done;
    done.source = ToWire(answer.context);
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
  transfer.context = ToWire(answer.context);
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
  const uint32_t offset = WriteDataHeaders(
      out,
      {.flags = static_cast<uint8_t>(wire::kRudAnswersRead |
                                     (context.marked ? wire::kRudMarked : 0)),
       .path = context.path,
       .notify = context.notify,
       .job = config_.job,
       .window = context.peer_window,
       .source_window = config_.number,
       .to = context.peer_context,
       .from = own,
       .tid = context.tid,
       .pvo = context.target_pvo,
       .total = context.total,
       .stride = context.stride},
      number);
  out.peer = context.peer;
  out.path = context.path;
  out.context = own.number;
  out.tid = context.tid;
  out.payload_in_ring = false;
  // Again: the registration may have ended since.
  const PvoTranslation found =
      tces_.Check(config_.job, {context.source_pvo + offset}, out.payload_bytes,
                  mem::kRemoteRead);
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
  uint32_t without_packet = 0;  // commands: wrong ones cost time, too
  while (count < packets.size() && !failed_) {
    TxPacket& out = packets[count];
    if (SendAnswer(out)) {
      ++count;
      continue;
    }
    // Reads and commands take turns.
    reads_turn_ = !reads_turn_;
    if (reads_ != 0 && (reads_turn_ || (unsent_ == 0 && !send_.Waiting()))) {
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
  // Another packet of it has failed, or its owner has begun something else.
  if (context.tid != packet.tid || context.state == ContextState::kEnded)
    return;
  Forget(packet.context);
  EndRead(context);
}

void Source::EndRead(Context& context) {
  context.unsent = 0;
  context.state = ContextState::kEnded;
  context.arrived = 0;
  notifier_.TellOther(context, wire::RudReason::kAccess, context.source_pvo);
}

void Source::Flush() {
  if (unsent_ != 0) {
    unsent_ = 0;
    send_.Finish(URNIC_RUD_FLUSHED);
  }
  while (send_.Waiting() != 0) send_.Finish(URNIC_RUD_FLUSHED);
  send_.Publish();
  ForgetAll();
}

}  // namespace urnic::rud
