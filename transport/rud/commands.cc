// Commands of the program: executes the first one of the send FIFO.

#include <algorithm>
#include <bit>

#include "transport/base/mutation.h"
#include "transport/mem/mr_table.h"
#include "transport/rud/data_headers.h"
#include "transport/rud/headers.h"
#include "transport/rud/source.h"
#include "transport/wire/appender.h"

namespace urnic::rud {
namespace {

static_assert(URNIC_RUD_NOTIFY_SOURCE == wire::kRudNotifySource);
static_assert(URNIC_RUD_NOTIFY_TARGET == wire::kRudNotifyTarget);
static_assert(URNIC_RUD_NOTIFY_THIRD == wire::kRudNotifyThird);

// A group has no number: its packets go to its IP address.
constexpr uint32_t kGroup = 0;
// Commands that cannot go to a group.
constexpr bool IsForOne(uint8_t opcode) {
  return opcode == URNIC_RUD_READ || opcode == URNIC_RUD_THIRD_READ ||
         opcode == URNIC_RUD_ASK_STATE;
}

// Packets have room for 24 bits. A larger number would lead to a window, or a
// group, that the command does not name.
constexpr bool IsWindow(uint32_t number) {
  return number - 1 < wire::kRudWindowMask;
}
constexpr bool CanGoTo(uint32_t window, uint8_t opcode) {
  return __builtin_expect(IsWindow(window), 1) ||
         (window == kGroup && !IsForOne(opcode));
}

// The notifications that a command may ask for.
constexpr uint8_t NotificationsOf(uint8_t opcode) {
  return opcode == URNIC_RUD_THIRD_READ
             ? wire::kRudNotifications
             : URNIC_RUD_NOTIFY_SOURCE | URNIC_RUD_NOTIFY_TARGET;
}

using wire::Be;
using wire::RudType;

// `target`: the context to which the data goes.
wire::RudRead ReadOf(const urnic_rud_send& command, uint64_t target) {
  wire::RudRead read;
  read.source_pvo = Be<uint64_t>(command.remote_pvo);
  read.target_pvo = Be<uint64_t>(command.local_pvo);
  read.total = Be<uint32_t>(command.bytes);
  read.stride = Be<uint16_t>(command.stride);
  read.target = ToWire(ContextId::Of(target));
  read.packets = Be<uint64_t>(command.packets);
  return read;
}

}  // namespace

[[gnu::always_inline]] inline urnic_rud_status Source::TakeContext(
    Context*& context) {
  context =
      contexts_.Find(ContextId::Of(command_.local_context), config_.number);
  if (context == nullptr) return URNIC_RUD_BAD_CONTEXT;
  if (context->state == ContextState::kSending) return URNIC_RUD_BUSY;
  if (command_.tid <= context->tid && !IsNextOfSlots(*context))
    return URNIC_RUD_OLD_TID;
  return URNIC_RUD_SENT;
}

// Document C: the requests of a half-send write are components of one transfer.
bool Source::IsNextOfSlots(const Context& context) const {
  return command_.opcode == URNIC_RUD_WRITE &&
         (command_.flags & URNIC_RUD_SLOT_DATA) != 0 &&
         command_.tid == context.tid &&
         (context.state == ContextState::kAwaiting ||
          context.state == ContextState::kIdle);
}

uint32_t Source::SlotPayloadBytes() const {
  const auto number = static_cast<uint8_t>(std::countr_zero(command_.packets));
  return wire::RudPayloadOf(command_.bytes, command_.stride, number);
}

bool Source::IsPacketOfSlot() const {
  if ((command_.flags & URNIC_RUD_INLINE_DATA) != 0 ||
      !std::has_single_bit(command_.packets)) {
    return false;
  }
  return SlotPayloadBytes() <= send_.slot_bytes();
}

// The program may still change the slot afterwards; then the target refuses the
// list.
bool Source::IsList() const {
  if ((command_.flags & URNIC_RUD_SLOT_DATA) == 0 ||
      (command_.flags & URNIC_RUD_TO_FIFO) != 0 || command_.window == kGroup ||
      command_.remote_pvo != 0) {
    return false;
  }
  return wire::RudListFits(
      {reinterpret_cast<const uint8_t*>(send_.SlotAddress()),
       SlotPayloadBytes()});
}

void Source::BeginTransfer(Context& context, bool awaits) {
  const bool is_same = TransferOf(context.tid) == TransferOf(command_.tid);
  context.counted &= is_same;
  // A retransmission to one member of a group goes to its window, not to
  // kGroup.
  context.to_group =
      command_.window == kGroup ||
      MUTATION(rud_repair_ends_the_wait_for_the_group,
               context.to_group &&
                   MUTATION(rud_waits_for_a_group_forever, is_same, true),
               false);
  context.tid = command_.tid;
  context.is_own = awaits;
  context.state = awaits ? ContextState::kAwaiting : ContextState::kIdle;
  // It would count each member, and each attempt again.
  context.counter = context.to_group ? 0 : command_.counter;
  context.count_only =
      !context.to_group && (command_.flags & URNIC_RUD_COUNT_ONLY) != 0;
}

[[gnu::always_inline]] inline urnic_rud_status Source::BeginWrite() {
  if (!wire::RudPacketsFit(command_.packets, command_.bytes, command_.stride) ||
      command_.stride > config_.max_payload) {
    return URNIC_RUD_BAD_REQUEST;
  }
  const bool is_inline = (command_.flags & URNIC_RUD_INLINE_DATA) != 0;
  const bool to_fifo = (command_.flags & URNIC_RUD_TO_FIFO) != 0;
  const bool in_slot = (command_.flags & URNIC_RUD_SLOT_DATA) != 0;
  if ((is_inline && command_.bytes > URNIC_RUD_INLINE) ||
      (in_slot && !IsPacketOfSlot())) {
    return URNIC_RUD_BAD_REQUEST;
  }
  const bool is_list = (command_.flags & URNIC_RUD_LIST) != 0;
  if (is_list && !IsList()) return URNIC_RUD_BAD_REQUEST;
  Context* context = nullptr;
  if (!to_fifo || command_.notify != 0) {
    const urnic_rud_status status = TakeContext(context);
    if (status != URNIC_RUD_SENT) return status;
  }
  if (in_slot) {
    // SendWritePacket() adds the offset in the transfer, but `remote_pvo` is
    // already that of the packet.
    const uint64_t offset =
        uint64_t{command_.stride} * std::countr_zero(command_.packets);
    if (!to_fifo && !is_list) command_.remote_pvo -= offset;
  } else if (!is_inline) {
    const PvoTranslation found = tces_.CheckAccess(
        config_.job, {command_.local_pvo}, command_.bytes, mem::kLocalRead);
    if (found.fault != PvoFault::kNone) return URNIC_RUD_BAD_PVO;
  }
  if (context != nullptr && command_.tid != context->tid) {
    BeginTransfer(*context, (command_.notify & URNIC_RUD_NOTIFY_SOURCE) != 0);
  }
  unsent_ = command_.packets;
  return URNIC_RUD_SENT;
}

urnic_rud_status Source::BeginRead() {
  if (!wire::RudPacketsFit(command_.packets, command_.bytes, command_.stride) ||
      (command_.flags & ~URNIC_RUD_TO_FIFO) != 0 ||
      command_.stride > config_.max_payload) {
    return URNIC_RUD_BAD_REQUEST;
  }
  Context* context = nullptr;
  const urnic_rud_status status = TakeContext(context);
  if (status != URNIC_RUD_SENT) return status;
  const bool to_fifo = (command_.flags & URNIC_RUD_TO_FIFO) != 0;
  if (!to_fifo) {
    const PvoTranslation found = tces_.CheckAccess(
        config_.job, {command_.local_pvo}, command_.bytes, mem::kLocalWrite);
    if (found.fault != PvoFault::kNone) return URNIC_RUD_BAD_PVO;
  }
  const bool is_same = TransferOf(context->tid) == TransferOf(command_.tid) &&
                       context->target_pvo == command_.local_pvo &&
                       context->total == command_.bytes &&
                       context->stride == command_.stride &&
                       context->was_asked && context->to_fifo == to_fifo;
  const bool goes_on = is_same && IsReading(*context);
  context->tid = command_.tid;
  MUTATION_SKIPS(rud_places_a_complete_read_again)
  if (is_same && context->state == ContextState::kReceived) {
    // It completed before the program posted this. The source may have been
    // told, so nothing may be placed again.
    notifier_.TellComplete(*context);
    return URNIC_RUD_SENT;
  }
  if (!goes_on) {
    context->BeginReceiving(command_.bytes, command_.stride, command_.notify);
  } else if ((command_.packets & ~context->arrived) != 0) {
    // Requests only packets that are missing, which the program cannot know.
    command_.packets &= ~context->arrived;
  }
  context->is_own = context->was_asked = true;
  context->to_fifo = to_fifo;
  context->counter = command_.counter;
  context->target_pvo = command_.local_pvo;
  unsent_ = 1;
  return URNIC_RUD_SENT;
}

urnic_rud_status Source::BeginThirdRead() {
  if (!wire::RudPacketsFit(command_.packets, command_.bytes, command_.stride) ||
      (command_.flags & ~URNIC_RUD_COUNT_ONLY) != 0 ||
      command_.stride > config_.max_payload || command_.target_peer == 0 ||
      !IsWindow(command_.target_window)) {
    return URNIC_RUD_BAD_REQUEST;
  }
  Context* context = nullptr;
  const urnic_rud_status status = TakeContext(context);
  if (status != URNIC_RUD_SENT) return status;
  BeginTransfer(*context, (command_.notify & URNIC_RUD_NOTIFY_THIRD) != 0);
  unsent_ = 1;
  return URNIC_RUD_SENT;
}

urnic_rud_status Source::BeginAsking() {
  if (command_.flags != 0 || command_.notify != 0) return URNIC_RUD_BAD_REQUEST;
  Context* context = nullptr;
  const urnic_rud_status status = TakeContext(context);
  if (status != URNIC_RUD_SENT) return status;
  // The question must be about a transfer from here. That includes one with a
  // refused attempt, because the program may not know of the refusal yet.
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

// Document C: "a cancel operation may be initiated by the ULPs to clean up the
// pending RDMA status in the rCxt". The larger tid makes what is on its way
// stale.
urnic_rud_status Source::BeginCancel() {
  if (command_.flags != 0 || command_.notify != 0) return URNIC_RUD_BAD_REQUEST;
  Context* const context =
      contexts_.Find(ContextId::Of(command_.local_context), config_.number);
  if (context == nullptr) return URNIC_RUD_BAD_CONTEXT;
  if (command_.tid <= context->tid) return URNIC_RUD_OLD_TID;
  Forget(contexts_.NumberOf(*context));
  context->state = ContextState::kIdle;
  context->is_own = context->owes_target = context->to_group = false;
  context->tid = command_.tid;
  return URNIC_RUD_SENT;
}

urnic_rud_status Source::BeginPacket() {
  const bool is_inline = (command_.flags & URNIC_RUD_INLINE_DATA) != 0;
  // A packet that is longer than the link's is sent in fragments.
  const uint32_t most = is_inline ? URNIC_RUD_INLINE : send_.slot_bytes();
  if (command_.bytes > most || command_.notify != 0 ||
      (command_.flags & URNIC_RUD_TO_FIFO) != 0) {
    return URNIC_RUD_BAD_REQUEST;
  }
  unsent_ = 1;
  return URNIC_RUD_SENT;
}

// Whether the command may have its counter and condition.
bool Source::IsCountable() const {
  const urnic_rud_send& c = command_;
  if (c.counter >= Conditions::kCounters ||
      c.condition >= Conditions::kCounters) {
    return false;
  }
  const bool counts_only = (c.flags & URNIC_RUD_COUNT_ONLY) != 0;
  switch (c.opcode) {
    case URNIC_RUD_PACKET:
      // A slot cannot be kept while the command waits.
      return c.counter == 0 && !counts_only &&
             (c.condition == 0 || (c.flags & URNIC_RUD_INLINE_DATA) != 0 ||
              c.bytes == 0);
    case URNIC_RUD_WRITE:
      if (c.condition != 0 && (c.flags & URNIC_RUD_SLOT_DATA) != 0)
        return false;
      // It would count each member, and each attempt again.
      if (c.counter != 0 && c.window == kGroup) return false;
      return c.counter == 0 ? !counts_only
                            : (c.notify & URNIC_RUD_NOTIFY_SOURCE) != 0;
    case URNIC_RUD_THIRD_READ:
      return c.counter == 0 ? !counts_only
                            : (c.notify & URNIC_RUD_NOTIFY_THIRD) != 0;
    case URNIC_RUD_READ:
      return !counts_only;
    case URNIC_RUD_CANCEL:
    case URNIC_RUD_ASK_STATE:
      return c.counter == 0 && !counts_only;
    case URNIC_RUD_COUNT_ARRIVALS:
      return c.condition == 0 && !counts_only;
    default:
      return c.condition == 0 && c.counter != 0 && c.flags == 0;
  }
}

// Document C: commands that set, clear and query counters and queues.
urnic_rud_status Source::BeginOnCounter() {
  const uint8_t counter = command_.counter;
  if (command_.notify != 0 || (command_.flags & URNIC_RUD_INLINE_DATA) != 0)
    return URNIC_RUD_BAD_REQUEST;
  if (command_.opcode == URNIC_RUD_SET_COUNTER) {
    conditions_.Set(counter, command_.value);
  } else if (command_.opcode == URNIC_RUD_DROP_HELD) {
    conditions_.Drop(counter);
  } else if (command_.opcode == URNIC_RUD_ASK_COUNTER) {
    urnic_rud_receive entry = {};
    entry.type = URNIC_RUD_GOT_COUNTER;
    entry.number = counter;
    entry.value = conditions_.value(counter);
    entry.held = conditions_.CountHeld(counter);
    if (!receive_.Push(entry, {})) return URNIC_RUD_NO_ROOM;
  } else if ((command_.flags & URNIC_RUD_TO_FIFO) != 0) {
    conditions_.CountPacketsBy(counter);
  } else {
    Context* const context =
        contexts_.Find(ContextId::Of(command_.local_context), config_.number);
    if (context == nullptr) return URNIC_RUD_BAD_CONTEXT;
    context->arrivals = counter;
  }
  return URNIC_RUD_SENT;
}

[[gnu::always_inline]] inline urnic_rud_status Source::Begin() {
  constexpr uint8_t kFlags =
      URNIC_RUD_INLINE_DATA | URNIC_RUD_TO_FIFO | URNIC_RUD_COUNT_ONLY;
  const uint8_t flags = command_.opcode == URNIC_RUD_WRITE
                            ? kFlags | URNIC_RUD_SLOT_DATA | URNIC_RUD_LIST
                            : kFlags;
  if ((command_.flags & ~flags) != 0 || !IsCountable() ||
      (command_.notify & ~NotificationsOf(command_.opcode)) != 0 ||
      !CanGoTo(command_.window, command_.opcode)) {
    return URNIC_RUD_BAD_REQUEST;
  }
  // Document C: a conditional request waits in its queue until the counter
  // meets its condition, and is then executed as any other.
  if (!was_held_ && !conditions_.Holds(command_))
    return conditions_.Hold(command_) ? URNIC_RUD_HELD : URNIC_RUD_NO_ROOM;
  switch (command_.opcode) {
    case URNIC_RUD_PACKET:
      return BeginPacket();
    case URNIC_RUD_WRITE:
      return BeginWrite();
    case URNIC_RUD_READ:
      return BeginRead();
    case URNIC_RUD_THIRD_READ:
      return BeginThirdRead();
    case URNIC_RUD_ASK_STATE:
      return BeginAsking();
    case URNIC_RUD_CANCEL:
      return BeginCancel();
    case URNIC_RUD_SET_COUNTER:
    case URNIC_RUD_ASK_COUNTER:
    case URNIC_RUD_COUNT_ARRIVALS:
    case URNIC_RUD_DROP_HELD:
      return BeginOnCounter();
    default:
      return URNIC_RUD_BAD_REQUEST;
  }
}

// Commands whose conditions hold come first.
void Source::ReadCommand() {
  was_held_ = conditions_.HasReady();
  if (was_held_) {
    command_ = conditions_.Take();
  } else {
    send_.Read(command_);
  }
}

void Source::Finish(urnic_rud_status status) {
  if (!was_held_) return send_.Finish(status);
  conditions_.Finish();
  if (status == URNIC_RUD_SENT) return;
  urnic_rud_receive entry = {};
  entry.type = URNIC_RUD_GOT_UNSENT;
  entry.number = command_.condition;
  entry.context = command_.local_context;
  entry.tid = command_.tid;
  entry.value = status;
  (void)receive_.Push(entry, {});
}

Source::Step Source::SendCommand(TxPacket& out) {
  if (unsent_ == 0) {
    if (!HasCommand()) return Step::kNothing;
    ReadCommand();
    const urnic_rud_status status = Begin();
    if (status != URNIC_RUD_SENT) {
      unsent_ = 0;
      failed_ |= status == URNIC_RUD_BAD_PVO;
      Finish(status);
      return failed_ ? Step::kNothing : Step::kDone;
    }
  }
  const bool sends = unsent_ != 0;
  if (sends && !SendCommandPacket(out)) {
    unsent_ = 0;
    failed_ = true;
    Finish(URNIC_RUD_BAD_PVO);
    return Step::kNothing;
  }
  if (unsent_ == 0) Finish(URNIC_RUD_SENT);
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
    wire::RudBase base = BaseOf(RudType::kReadRequest);
    if ((command_.flags & URNIC_RUD_TO_FIFO) != 0)
      base.flags = wire::kRudToFifo;
    appender.Append(base);
    appender.Append(transfer);
    appender.Append(ReadOf(command_, command_.local_context));
  } else if (command_.opcode == URNIC_RUD_THIRD_READ) {
    appender.Append(BaseOf(RudType::kThirdReadRequest));
    appender.Append(transfer);
    appender.Append(ReadOf(command_, command_.target_context));
    out.header_bytes = static_cast<uint16_t>(appender.size());
    AppendThird(out, {command_.target_peer, command_.target_window,
                      ContextId::Of(command_.local_context)});
    return true;
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

// Inline payload is copied from our copy of the command. It is not read from
// the ring again, and needs no call.
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
  const bool is_list = (command_.flags & URNIC_RUD_LIST) != 0;
  const uint32_t offset = WriteDataHeaders(
      out,
      {.flags = static_cast<uint8_t>((to_fifo ? wire::kRudToFifo : 0) |
                                     (is_list ? wire::kRudList : 0)),
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
  out.payload_in_ring = (command_.flags & URNIC_RUD_SLOT_DATA) != 0;
  if (out.payload_in_ring) {
    // Such a command has one packet.
    out.payload = send_.SlotAddress();
    return true;
  }
  if ((command_.flags & URNIC_RUD_INLINE_DATA) != 0) {
    AppendInline(out, offset);
    return true;
  }
  // Again: the registration may have ended since.
  const PvoTranslation found =
      tces_.CheckAccess(config_.job, {command_.local_pvo + offset},
                        out.payload_bytes, mem::kLocalRead);
  out.payload = found.address;
  return found.fault == PvoFault::kNone;
}

}  // namespace urnic::rud
