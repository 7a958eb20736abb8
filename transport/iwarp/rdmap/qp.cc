#include "transport/iwarp/rdmap/qp.h"

namespace urnic::rdmap {
namespace {

RxVerdict VerdictOf(const ddp::StreamError& error) {
  if (error == ddp::kNoBuffer || error == ddp::kTooLong) {
    return RxVerdict::kDdpNoBuffer;
  }
  if (error == ddp::kInvalidateUnknown) return RxVerdict::kDdpRefused;
  const bool access =
      (error.layer == ddp::kRdmapLayer && error.type == ddp::kProtectionType) ||
      (error.layer == ddp::kDdpLayer && error.type == ddp::kTaggedType);
  if (access && error != ddp::kTaggedVersion) return RxVerdict::kDdpRefused;
  return error.type == ddp::kLocalType ? RxVerdict::kDdpMemory
                                       : RxVerdict::kDdpMalformed;
}

QpEvent EventOf(RxVerdict verdict) {
  switch (verdict) {
    case RxVerdict::kDdpRefused:
      return QpEvent::kAccessError;
    case RxVerdict::kDdpMemory:
      return QpEvent::kFatal;
    default:
      return QpEvent::kRequestError;
  }
}

}  // namespace

Qp::Qp(const QpLimits& limits, WorkQueueView sq, std::span<SendRecord> records,
       RecvQueue* recv_queue, std::span<Answer> answers, mem::MrTable* mrs)
    : limits_(limits),
      requester_(limits, sq, records, mrs),
      responder_(limits, recv_queue, answers, mrs) {}

void Qp::Modify(QpState target, const Config& config) {
  if (target == QpState::kErr) {
    EnterError();
    return;
  }
  state_ = target;
  if (target == QpState::kReset) {
    requester_.Reset();
    responder_.Reset();
    for (ddp::UntaggedQueue& queue : queues_) queue = ddp::UntaggedQueue();
    event_ = QpEvent::kNone;
    answered_last_ = terminated_ = terminate_due_ = rtr_due_ = false;
    terminate_bytes_ = 0;
    peers_error_ = ddp::kNoError;
    refused_by_peer_ = {};
  } else if (target == QpState::kRts) {
    requester_.Start(config);
    responder_.Start(config);
  }
}

void Qp::EnterError() {
  state_ = QpState::kErr;
  rtr_due_ = false;
  requester_.EnterError();
  responder_.Stop();
}

void Qp::Terminate(const ddp::StreamError& error) {
  if (state_ == QpState::kRts) (void)Refuse(error, nullptr);
}

//= RFC 5040 7.1: an error that the peer caused is reported to it by a
//= Terminate, after which nothing is sent
RxVerdict Qp::Refuse(const ddp::StreamError& error,
                     const ddp::ReceivedSegment* cause) {
  terminate_bytes_ = BuildTerminate(error, cause, terminate_);
  terminate_due_ = true;
  const RxVerdict verdict = VerdictOf(error);
  event_ = EventOf(verdict);
  EnterError();
  return verdict;
}

//= RFC 5040 5.4: a Terminate is the last message of a stream, and is not
//= answered
ddp::StreamError Qp::OnTerminate(const ddp::ReceivedSegment& segment) {
  uint8_t payload[kMaxTerminateBytes];
  const uint32_t bytes =
      std::min<uint32_t>(segment.payload_bytes, sizeof(payload));
  segment.CopyPayload(payload, bytes);
  rdmap::Terminate terminate;
  if (!ParseTerminate({payload, bytes}, terminate)) {
    return ddp::kStreamCatastrophic;
  }
  requester_.OnTerminate(terminate);
  terminated_ = true;
  peers_error_ = terminate.error;
  refused_by_peer_ = terminate.access();
  EnterError();
  return ddp::kNoError;
}

// A request ended with a local error: the peer does not know of it.
void Qp::OnRequestFailed() {
  if (state_ == QpState::kRts) (void)Refuse(ddp::kRdmapCatastrophic, nullptr);
}

void Qp::OnPlacementFault(const Placement& placement,
                          std::span<RecvCompletion> completions) {
  if (placement.from_responder) {
    responder_.OnPlacementFault(placement, completions);
  } else {
    requester_.OnPlacementFault(placement.origin);
  }
  Terminate(ddp::kDdpCatastrophic);
}

// --- Sending -----------------------------------------------------------------

void Qp::SendRtr(Rtr rtr) {
  URNIC_CHECK(state_ == QpState::kRts);
  rtr_ = rtr;
  rtr_due_ = true;
  if (rtr == Rtr::kRead) rtr_msn_ = requester_.BeginRtrRead();
}

ddp::Cut Qp::CutRtr() {
  rtr_due_ = false;
  const bool read = rtr_ == Rtr::kRead;
  const ddp::Source source{.kind = ddp::SourceKind::kControl,
                           .index = read ? kRtrRead : kRtrWrite};
  return {.source = source.Pack(),
          .ulpdu_bytes = static_cast<uint32_t>(
              read ? sizeof(wire::DdpUntagged) + sizeof(wire::RdmapReadRequest)
                   : sizeof(wire::DdpTagged))};
}

ddp::Cut Qp::NextCut(uint32_t mulpdu, bool can_keep) {
  if (mulpdu < ddp::kMinMulpdu) return {};
  if (state_ == QpState::kRts) {
    if (rtr_due_) return CutRtr();
    // Messages take turns and are not mixed: a peer may track only one.
    const bool in_request = requester_.InMessage();
    const bool answer_waits = can_keep && !in_request && responder_.HasWork();
    if (answer_waits &&
        (responder_.InMessage() || !answered_last_ || !requester_.HasWork())) {
      return CutAnswer(mulpdu);
    }
    if (in_request || !responder_.InMessage()) {
      const ddp::Cut cut = requester_.NextCut(mulpdu, can_keep);
      if (cut.ulpdu_bytes != 0) answered_last_ = false;
      return cut;
    }
  }
  if (!terminate_due_) return {};
  terminate_due_ = false;
  const ddp::Source source{.kind = ddp::SourceKind::kControl,
                           .index = kTerminate};
  return {.source = source.Pack(),
          .ulpdu_bytes = static_cast<uint32_t>(sizeof(wire::DdpUntagged)) +
                         terminate_bytes_};
}

ddp::Cut Qp::NextSmallCut(uint32_t mulpdu) {
  if (state_ != QpState::kRts || responder_.HasWork() ||
      !requester_.NextIsSmall(mulpdu)) {
    return {};
  }
  return requester_.NextCut(mulpdu, /*can_keep=*/true);
}

ddp::Cut Qp::CutAnswer(uint32_t mulpdu) {
  answered_last_ = true;
  ddp::Cut cut;
  const ddp::StreamError error = responder_.NextCut(mulpdu, cut);
  if (!error) return cut;
  (void)Refuse(error, nullptr);
  return NextCut(mulpdu, true);
}

bool Qp::Build(uint64_t source, TxSlot& slot) {
  const ddp::Source from = ddp::Source::Unpack(source);
  switch (from.kind) {
    case ddp::SourceKind::kRequest:
      return requester_.Build(from, slot);
    case ddp::SourceKind::kAnswer:
      return state_ == QpState::kRts && responder_.Build(from, slot);
    default:
      BuildControl(from.index, slot);
      return true;
  }
}

void Qp::BuildControl(uint16_t index, TxSlot& slot) const {
  slot.from_responder = true;
  slot.origin = 0;
  slot.segment_count = 0;
  slot.payload_bytes = 0;
  slot.pad_bytes = 0;
  switch (index) {
    case kTerminate:
      ddp::WriteUntagged(slot, {.opcode = wire::RdmapOpcode::kTerminate,
                                .queue = wire::kTerminateQueue,
                                .msn = 1});
      std::memcpy(slot.headers + slot.header_bytes, terminate_,
                  terminate_bytes_);
      slot.header_bytes =
          static_cast<uint16_t>(slot.header_bytes + terminate_bytes_);
      return;
    case kRtrWrite:
      ddp::WriteTagged(slot, wire::RdmapOpcode::kWrite, true, 0, 0);
      return;
    default:
      ddp::WriteUntagged(slot, {.opcode = wire::RdmapOpcode::kReadRequest,
                                .queue = wire::kReadRequestQueue,
                                .msn = rtr_msn_});
      ddp::Append(slot, wire::RdmapReadRequest{});
  }
}

void Qp::OnSent(uint64_t source, bool kept) {
  const ddp::Source from = ddp::Source::Unpack(source);
  if (from.kind == ddp::SourceKind::kAnswer) {
    responder_.OnSent(from);
  } else if (kept && from.kind == ddp::SourceKind::kRequest) {
    requester_.OnKept(from);
  }
}

void Qp::OnAcked(uint64_t source) {
  const ddp::Source from = ddp::Source::Unpack(source);
  if (from.kind == ddp::SourceKind::kRequest) requester_.OnAcked(from);
}

void Qp::OnGatherFault(uint64_t source) {
  const ddp::Source from = ddp::Source::Unpack(source);
  if (from.kind == ddp::SourceKind::kRequest) requester_.OnGatherFault(from);
  if (state_ == QpState::kRts) event_ = QpEvent::kFatal;
  EnterError();
}

}  // namespace urnic::rdmap
