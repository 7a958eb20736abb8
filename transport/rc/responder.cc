// The parts of the responder that are off the fast path.

#include "transport/rc/responder.h"

#include "transport/work/placement_fault.h"

namespace urnic::rc {

void Responder::OnPlacementFault(const Placement& placement,
                                 std::span<RecvCompletion> completions) {
  recv_status_ =
      FailReceives(placement, RxVerdict::kRemoteOperational, completions);
  const Psn psn(placement.origin);
  if (failed_ && psn - nak_psn_ >= 0) return;
  expected_ = psn;
  replay_.DropFrom(psn);
  (void)Refuse(wire::kNakRemoteOperationalError, QpEvent::kFatal);
}

void Responder::Use(const QpConfig& config) {
  dest_qpn_ = config.dest_qpn;
  mtu_ = config.mtu;
  access_ = static_cast<uint16_t>(config.access);
  pkey_ = config.pkey;
  min_rnr_timer_ = config.min_rnr_timer;
}

void Responder::Start(const QpConfig& config) {
  Use(config);
  expected_ = config.rq_psn;
  replay_.Reset(config.max_dest_rd_atomic);
  message_ = Message::kNone;
  msn_ = 0;
  ack_due_ = gap_reported_ = failed_ = established_ = false;
  nak_due_ = 0;
  receiving_ = true;
  event_ = QpEvent::kNone;
  recv_status_ = URNIC_WC_WR_FLUSH_ERR;
  notifier_ = cc::NotificationPoint();
}

void Responder::Stop() {
  receiving_ = established_ = failed_ = ack_due_ = false;
  nak_due_ = 0;
  notifier_.due = false;
  replay_.Reset(0);
}

bool Responder::PollFlush(RecvCompletion& out) {
  if (!rq_->TakeToFlush()) return false;
  out = RecvCompletion{.status = recv_status_, .wr_id = rq_->Consume()};
  recv_status_ = URNIC_WC_WR_FLUSH_ERR;
  return true;
}

RxVerdict Responder::OnGap(Psn psn) {
  //= IBTA 9.7.5.2.8: a responder sends one sequence NAK per gap, and none while
  //= it waits for the PSN of an RNR NAK
  if (gap_reported_) {
    if (psn - dropped_psn_ > 0) dropped_psn_ = psn;
    return RxVerdict::kAfterGap;
  }
  gap_reported_ = true;
  dropped_psn_ = psn;
  nak_psn_ = expected_;
  nak_due_ = wire::kNakPsnSequenceError;
  return RxVerdict::kSequenceGap;
}

RxVerdict Responder::OnFlush(const RxPacket& packet) {
  const uint32_t flush = packet.feth().value.value();
  const uint32_t type = flush & wire::kFethTypeMask;
  const bool whole = (flush & wire::kFethLevelMask) == URNIC_FLUSH_MR;
  const uint32_t rights =
      ((type & URNIC_FLUSH_GLOBAL) != 0 ? mem::kFlushGlobal : 0) |
      ((type & URNIC_FLUSH_PERSISTENT) != 0 ? mem::kFlushPersistent : 0);
  const bool known =
      type != 0 && (type & ~(URNIC_FLUSH_GLOBAL | URNIC_FLUSH_PERSISTENT)) == 0;
  if (!known || (access_ & rights) != rights ||
      (!whole && (flush & wire::kFethLevelMask) != 0)) {
    return RefuseRequest();
  }
  const wire::Reth& reth = packet.reth();
  const MrKey key{reth.rkey.value()};
  const mem::MemoryRegion* region = mrs_->Find(key);
  if (region == nullptr ||
      !Check(key, pd_, whole ? region->iova : reth.virtual_address.value(),
             whole ? 0 : reth.dma_length.value(), rights)
           .ok()) {
    return RefuseAccess();
  }
  return AnswerEmpty(packet);
}

RxVerdict Responder::OnDuplicate(const RxPacket& packet) {
  switch (packet.info->kind) {
    case wire::PacketKind::kReadRequest:
      return OnDuplicateRead(packet);
    case wire::PacketKind::kAtomic:
    case wire::PacketKind::kAtomicWrite:
    case wire::PacketKind::kFlush: {
      ReplaySlot* slot = replay_.Find(packet.psn());
      const bool empty = packet.info->kind != wire::PacketKind::kAtomic;
      if (slot == nullptr ||
          slot->kind !=
              (empty ? ReplaySlot::Kind::kEmpty : ReplaySlot::Kind::kAtomic)) {
        return RxVerdict::kDuplicateGone;
      }
      replay_.MarkPending(*slot);
      return RxVerdict::kDuplicate;
    }
    default:
      ack_due_ = true;
      return RxVerdict::kDuplicate;
  }
}

RxVerdict Responder::OnDuplicateRead(const RxPacket& packet) {
  ReplaySlot* slot = replay_.Find(packet.psn());
  if (slot == nullptr || slot->kind != ReplaySlot::Kind::kRead) {
    return RxVerdict::kDuplicateGone;
  }
  const wire::Reth& reth = packet.reth();
  const uint64_t offset =
      static_cast<uint64_t>(packet.psn() - slot->first_psn) * mtu_;
  const uint32_t length = reth.dma_length.value();
  if (reth.virtual_address.value() != slot->address + offset ||
      length > slot->length - offset || reth.rkey.value() != slot->rkey) {
    return RxVerdict::kDuplicateGone;
  }
  if (length != 0 && !Check(MrKey{slot->rkey}, slot->pd, slot->address + offset,
                            length, mem::kRemoteRead)
                          .ok()) {
    // Older reads are still answered, ahead of the NAK.
    replay_.DropFrom(slot->first_psn);
    const RxVerdict verdict = RefuseAccess();
    nak_psn_ = packet.psn();
    return verdict;
  }
  slot->answer_begin = slot->answer_next = static_cast<uint32_t>(offset);
  slot->answer_end = static_cast<uint32_t>(offset) + length;
  replay_.MarkPending(*slot);
  return RxVerdict::kDuplicate;
}

RxVerdict Responder::FailRead(Psn psn, uint8_t syndrome, QpEvent event) {
  replay_.Reset(0);
  const RxVerdict verdict = Refuse(syndrome, event);
  nak_psn_ = psn;
  return verdict;
}

}  // namespace urnic::rc
