// Commands of the program: what the first of the send FIFO needs.

#include <algorithm>
#include <bit>

#include "transport/mem/mr_table.h"
#include "transport/rud/headers.h"
#include "transport/rud/source.h"
#include "transport/wire/appender.h"

namespace urnic::rud {
namespace {

static_assert(URNIC_RUD_NOTIFY_SOURCE == wire::kRudNotifySource);
static_assert(URNIC_RUD_NOTIFY_TARGET == wire::kRudNotifyTarget);
static_assert(URNIC_RUD_NOTIFY_THIRD == wire::kRudNotifyThird);

// Who may be told of what a command does.
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

urnic_rud_status Source::TakeContext(Context*& context) {
  context =
      contexts_.Find(ContextId::Of(command_.local_context), config_.number);
  if (context == nullptr) return URNIC_RUD_BAD_CONTEXT;
  if (context->state == ContextState::kSending) return URNIC_RUD_BUSY;
  if (command_.tid <= context->tid) return URNIC_RUD_OLD_TID;
  return URNIC_RUD_SENT;
}

urnic_rud_status Source::BeginWrite() {
  if (!wire::RudPacketsFit(command_.packets, command_.bytes, command_.stride) ||
      command_.stride > config_.max_payload) {
    return URNIC_RUD_BAD_REQUEST;
  }
  const bool is_inline = (command_.flags & URNIC_RUD_INLINE_DATA) != 0;
  const bool to_fifo = (command_.flags & URNIC_RUD_TO_FIFO) != 0;
  if (is_inline && command_.bytes > URNIC_RUD_INLINE)
    return URNIC_RUD_BAD_REQUEST;
  // Nobody at the other end knows when all of it has arrived.
  if (to_fifo && command_.notify != 0) return URNIC_RUD_BAD_REQUEST;
  Context* context = nullptr;
  if (!to_fifo) {
    const urnic_rud_status status = TakeContext(context);
    if (status != URNIC_RUD_SENT) return status;
  }
  if (is_inline) {
    source_ = send_.InlineAddress();
  } else {
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
  if (!goes_on)
    context->BeginReceiving(command_.bytes, command_.stride, command_.notify);
  context->is_own = context->was_asked = true;
  context->target_pvo = command_.local_pvo;
  unsent_ = 1;
  return URNIC_RUD_SENT;
}

urnic_rud_status Source::BeginThirdRead() {
  if (!wire::RudPacketsFit(command_.packets, command_.bytes, command_.stride) ||
      command_.flags != 0 || command_.stride > config_.max_payload ||
      command_.target_peer == 0) {
    return URNIC_RUD_BAD_REQUEST;
  }
  Context* context = nullptr;
  const urnic_rud_status status = TakeContext(context);
  if (status != URNIC_RUD_SENT) return status;
  context->tid = command_.tid;
  context->is_own = (command_.notify & URNIC_RUD_NOTIFY_THIRD) != 0;
  context->state =
      context->is_own ? ContextState::kAwaiting : ContextState::kIdle;
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

urnic_rud_status Source::Begin() {
  constexpr uint8_t kFlags = URNIC_RUD_INLINE_DATA | URNIC_RUD_TO_FIFO;
  if ((command_.flags & ~kFlags) != 0 ||
      (command_.notify & ~NotificationsOf(command_.opcode)) != 0) {
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
      source_ = is_inline ? send_.InlineAddress() : send_.SlotAddress();
      unsent_ = 1;
      return URNIC_RUD_SENT;
    }
    case URNIC_RUD_WRITE:
      return BeginWrite();
    case URNIC_RUD_READ:
      return BeginRead();
    case URNIC_RUD_THIRD_READ:
      return BeginThirdRead();
    case URNIC_RUD_ASK_STATE:
      return BeginAsking();
    default:
      return URNIC_RUD_BAD_REQUEST;
  }
}

Source::Step Source::SendCommand(TxPacket& out) {
  if (unsent_ == 0) {
    if (send_.Waiting() == 0) return Step::kNothing;
    command_ = send_.Read();
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

bool Source::SendCommandPacket(TxPacket& out) {
  out.peer = command_.peer;
  out.path = command_.path;
  out.context = TxPacket::kNoContext;
  if (command_.opcode == URNIC_RUD_WRITE) return SendWritePacket(out);
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
    out.payload = source_;
    out.payload_bytes = command_.bytes;
    out.payload_in_ring = true;
  } else if (command_.opcode == URNIC_RUD_READ) {
    appender.Append(BaseOf(RudType::kReadRequest));
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
  return true;
}

bool Source::SendWritePacket(TxPacket& out) {
  const auto number = static_cast<uint8_t>(std::countr_zero(unsent_));
  unsent_ &= unsent_ - 1;
  const bool to_fifo = (command_.flags & URNIC_RUD_TO_FIFO) != 0;
  wire::RudBase base = BaseOf(RudType::kData);
  base.flags = to_fifo ? wire::kRudToFifo : 0;
  const DataPlace place = {.to = ContextId::Of(command_.context),
                           .from = ContextId::Of(command_.local_context),
                           .tid = command_.tid,
                           .pvo = command_.remote_pvo,
                           .total = command_.bytes,
                           .stride = command_.stride};
  const uint32_t offset = AppendData(out, base, place, number);
  out.payload_in_ring = (command_.flags & URNIC_RUD_INLINE_DATA) != 0;
  if (out.payload_in_ring) {
    out.payload = source_ + offset;
    return true;
  }
  // Again: the registration may have ended since.
  const PvoTranslation found =
      tces_.Check(config_.job, {command_.local_pvo + offset}, out.payload_bytes,
                  mem::kLocalRead);
  out.payload = found.address;
  return found.fault == PvoFault::kNone;
}

}  // namespace urnic::rud
