// The parts of the responder that are off the fast path.

#include "transport/rc/responder.h"

#include "transport/base/mutation.h"
#include "transport/work/placement_fault.h"

namespace urnic::rc {

void Responder::OnPlacementFault(const Placement& placement,
                                 std::span<RecvCompletion> completions) {
  recv_status_ =
      FailReceives(placement, RxVerdict::kRemoteOperational, completions);
  CountFailedReceives(completions, pool_->counters());
  const Psn psn(placement.origin);
  if (failed_ && psn - nak_psn_ >= 0) return;
  expected_ = psn;
  replay_.DropFrom(psn);
  (void)Refuse(wire::kNakRemoteOperationalError, QpEvent::kFatal);
}

void Responder::OnGatherFault(Psn psn) {
  if (failed_ && psn - nak_psn_ >= 0) return;
  (void)FailRead(psn, wire::kNakRemoteOperationalError, QpEvent::kFatal);
}

void Responder::NoteNak() const {
  const auto event = (nak_due_ & wire::kAethTypeMask) == wire::kAethRnrNak
                         ? HistoryEvent::kRnrReported
                     : nak_due_ == wire::kNakPsnSequenceError
                         ? HistoryEvent::kGapReported
                         : HistoryEvent::kRefused;
  pool_->Note(event, qpn_, nak_psn_.value(), nak_due_);
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
  ack_due_ = failed_ = established_ = peer_marks_ = false;
  reported_ = Reported::kNothing;
  nak_due_ = 0;
  receiving_ = true;
  event_ = QpEvent::kNone;
  recv_status_ = URNIC_WC_WR_FLUSH_ERR;
  notifier_ = cc::NotificationPoint();
}

void Responder::Stop() {
  receiving_ = established_ = failed_ = ack_due_ = false;
  nak_due_ = 0;
  DropHeld();
  notifier_.due = false;
  replay_.Reset(0);
}

bool Responder::PollFlush(RecvCompletion& out) {
  if (!rq_->TakeToFlush()) return false;
  out = RecvCompletion{.status = recv_status_, .wr_id = rq_->Consume()};
  CountReceiveError(out.status, pool_->counters());
  recv_status_ = URNIC_WC_WR_FLUSH_ERR;
  return true;
}

RxVerdict Responder::OnGap(const RxPacket& packet) {
  const Psn psn = packet.psn();
  //= IBTA 9.7.5.2.8: while a responder waits for the PSN of an RNR NAK, it
  //= sends no other NAK
  MUTATION_SKIPS(holds_behind_a_missing_receive)
  if (reported_ == Reported::kNotReady) {
    if (psn - dropped_psn_ > 0) dropped_psn_ = psn;
    return RxVerdict::kAfterGap;
  }
  ++pool_->counters().out_of_sequence;
  const bool first = reported_ == Reported::kNothing;
  if (first && (held_ == nullptr || dropped_psn_ - expected_ < 0)) {
    dropped_psn_ = expected_ + -1;  // nothing was dropped
  }
  // Another gap has appeared, behind the held packets.
  const bool another =
      held_ != nullptr && !held_->empty() && psn - held_->end() > 0;
  const RxVerdict verdict = Hold(packet);
  const bool held =
      verdict == RxVerdict::kHeld || verdict == RxVerdict::kHeldTwice;
  // Only forged packets are further ahead.
  const bool near = psn - expected_ < static_cast<int32_t>(kHoldSpan);
  if (!held && near && psn - dropped_psn_ > 0) dropped_psn_ = psn;
  if (first) {
    // The expected packet may be held already, and due after this burst.
    if (held && held_->begin() == expected_) return verdict;
    ReportGap();
    return verdict == RxVerdict::kAfterGap ? RxVerdict::kSequenceGap : verdict;
  }
  //= IBTA 9.7.5.2.8: a responder sends one sequence NAK per gap
  // But a peer that marks resent packets gets a report of the other gaps.
  MUTATION_SKIPS(repeats_no_report)
  if (peer_marks_ && held && (another || packet.bth->ack_requested())) {
    ReportGap();
  }
  return verdict;
}

void Responder::ReportGap() {
  reported_ = Reported::kGap;
  nak_psn_ = expected_;
  nak_due_ = wire::kNakPsnSequenceError;
}

uint32_t Responder::PsnsOf(const RxPacket& packet) const {
  if (packet.info->kind != wire::PacketKind::kReadRequest) return 1;
  const uint64_t bytes = packet.reth().dma_length.value();
  const uint64_t packets = std::max<uint64_t>(1, (bytes + mtu_ - 1) / mtu_);
  return packets <= kHoldSpan ? static_cast<uint32_t>(packets) : 0;
}

RxVerdict Responder::Hold(const RxPacket& packet) {
  const uint32_t psns = PsnsOf(packet);
  // The shared queue that a packet of XRC names may be gone later.
  if (MUTATION(holds_what_names_a_queue, xrc_, false) || psns == 0)
    return RxVerdict::kAfterGap;
  if (held_ == nullptr) held_ = pool_->TakeList();
  if (held_ == nullptr) return RxVerdict::kAfterGap;
  const RxVerdict verdict =
      VerdictOf(held_->Insert(expected_, packet, psns), RxVerdict::kAfterGap);
  ReturnIdleList();
  return verdict;
}

void Responder::LookBehindGap(std::span<const RxPacket> packets,
                              Psn was_expected) {
  for (const RxPacket& packet : packets) {
    // Anybody can send a marked packet. But it is only executed if the sender
    // knows the expected PSN, and such a sender can do worse (docs/trust.md).
    const bool executed =
        packet.psn() - was_expected >= 0 && packet.psn() - expected_ < 0;
    if (packet.info->request() && packet.bth->repair() != 0 &&
        MUTATION(believes_any_mark, executed, true)) {
      peer_marks_ = true;
    }
  }
  held_->DropBefore(expected_);
  // A NAK that ends the connection is not replaced.
  if (failed_ || reported_ != Reported::kNothing) return;
  // Report the next gap, unless the expected packet is held, and due. Behind
  // the held packets there may have been some that could not be held: the peer
  // has to go back to them.
  const bool missing = held_->empty() ? dropped_psn_ - expected_ >= 0
                                      : held_->begin() != expected_;
  MUTATION_SKIPS(says_nothing_of_the_next_gap)
  if (missing) ReportGap();
}

uint32_t Responder::TakeHeld(std::span<RxPacket> out) {
  MUTATION_SKIPS(never_frees_what_was_held)
  held_->ReleaseTaken();
  const uint32_t count = held_->Take(expected_, out);
  ReturnIdleList();
  return count;
}

void Responder::DropHeld() {
  MUTATION_ADDS(never_drops_what_is_held, return;)
  if (held_ == nullptr) return;
  held_->Drop();
  ReturnIdleList();
}

void Responder::ReturnIdleList() {
  if (held_->idle()) pool_->Return(std::exchange(held_, nullptr));
}

void Responder::AppendHeld(TxSlot& slot) {
  const bool nak = nak_due_ != 0;
  if ((nak && nak_due_ != wire::kNakPsnSequenceError) || held_->empty()) return;
  const int32_t missing = held_->begin() - expected_;
  if (missing <= 0 || (nak && nak_psn_ != expected_)) return;
  auto* const bth = reinterpret_cast<wire::Bth*>(slot.headers);
  bth->SetRepair(
      std::min(static_cast<uint32_t>(missing), wire::Bth::kRepairMax));
  MUTATION_SKIPS(tells_everybody_what_is_held)
  if (!peer_marks_) return;
  const std::span<uint8_t> bitmap = pool_->bitmap();
  const uint32_t bytes = held_->WriteBitmap(expected_, bitmap);
  slot.segments[0] = {reinterpret_cast<uint64_t>(bitmap.data()), bytes};
  slot.segment_count = 1;
  slot.payload_bytes = bytes;
}

RxVerdict Responder::AnswerEmpty(const RxPacket& packet) {
  ReplaySlot* slot = replay_.Add();
  if (slot == nullptr) {
    (void)RefuseRequest();
    return RxVerdict::kTooManyReads;
  }
  slot->kind = ReplaySlot::Kind::kEmpty;
  slot->first_psn = expected_;
  slot->packets = 1;
  Advance(packet, 1);
  slot->msn = msn_;
  ack_due_ = false;
  replay_.MarkPending(*slot);
  return RxVerdict::kAccept;
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
  RemoteRange range = {reth.virtual_address.value(), reth.dma_length.value(),
                       key};
  if (whole) range = {region != nullptr ? region->iova : 0, 0, key};
  if (!Check(key, pd_, range.address, range.length, rights).ok()) {
    return RefuseAccess(range, URNIC_WR_FLUSH);
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
      MUTATION(replays_read_from_start,
               static_cast<uint64_t>(packet.psn() - slot->first_psn) * mtu_, 0);
  const uint32_t length = reth.dma_length.value();
  if (reth.virtual_address.value() != slot->address + offset ||
      length > slot->length - offset || reth.rkey.value() != slot->rkey) {
    return RxVerdict::kDuplicateGone;
  }
  const RemoteRange range = {slot->address + offset, length, MrKey{slot->rkey}};
  if (length != 0 &&
      !Check(range.key, slot->pd, range.address, length, mem::kRemoteRead)
           .ok()) {
    // Older reads are still answered, ahead of the NAK.
    replay_.DropFrom(slot->first_psn);
    const RxVerdict verdict = RefuseAccess(range, URNIC_WR_RDMA_READ);
    nak_psn_ = packet.psn();
    return verdict;
  }
  auto begin = static_cast<uint32_t>(offset);
  uint32_t end = begin + length;
  slot->marked = packet.bth->repair() != 0;
  if (slot->marked && slot->pending) {
    // A peer that requests several parts of a read wants all of them.
    begin = std::min(begin, slot->answer_next);
    end = std::max(end, slot->answer_end);
  }
  slot->answer_begin = slot->answer_next = begin;
  slot->answer_end = end;
  replay_.MarkPending(*slot);
  return RxVerdict::kDuplicate;
}

void Responder::WriteAtomicAck(TxSlot& out, ReplaySlot& slot) {
  WriteBth(out, wire::Opcode::kRcAtomicAcknowledge, slot.first_psn);
  AppendAeth(out, wire::kAethAck | wire::kAethCreditsInvalid, slot.msn);
  const wire::AtomicAckEth eth{wire::Be<uint64_t>(slot.original)};
  std::memcpy(out.headers + out.header_bytes, &eth, sizeof(eth));
  out.header_bytes += sizeof(eth);
  replay_.MarkAnswered(slot);
}

bool Responder::WriteReadResponse(TxSlot& out, ReplaySlot& slot) {
  const uint32_t left = slot.answer_end - slot.answer_next;
  const uint32_t chunk = std::min(left, mtu_);
  const bool first = slot.answer_next == slot.answer_begin;
  const bool last = chunk == left;
  const Psn psn =
      slot.first_psn + static_cast<int32_t>(slot.answer_next / mtu_);
  mem::Translation at;
  if (chunk != 0) {
    const RemoteRange range = {slot.address + slot.answer_next, chunk,
                               MrKey{slot.rkey}};
    at = Check(range.key, slot.pd, range.address, chunk, mem::kRemoteRead);
    if (!at.ok()) {
      write_ = range;
      refused_ = URNIC_WR_RDMA_READ;
      (void)FailRead(psn, wire::kNakRemoteAccessError, QpEvent::kAccessError);
      return false;
    }
  }
  using enum wire::Opcode;
  WriteBth(out,
           first ? (last ? kRcReadResponseOnly : kRcReadResponseFirst)
                 : (last ? kRcReadResponseLast : kRcReadResponseMiddle),
           psn);
  if (first || last) {
    AppendAeth(out, wire::kAethAck | wire::kAethCreditsInvalid, slot.msn);
  }
  out.payload_bytes = chunk;
  out.pad_bytes = static_cast<uint8_t>(-chunk & 3);
  auto* bth = reinterpret_cast<wire::Bth*>(out.headers);
  bth->flags = wire::Bth::MakeFlags(false, true, out.pad_bytes);
  if (__builtin_expect(slot.marked, 0)) bth->SetRepair(1);
  out.origin = psn.value();
  if (chunk != 0) {
    out.segments[0] = {at.host, chunk};
    out.segment_count = 1;
  }
  slot.answer_next += chunk;
  if (last) replay_.MarkAnswered(slot);
  return true;
}

RxVerdict Responder::FailRead(Psn psn, uint8_t syndrome, QpEvent event) {
  replay_.Reset(0);
  const RxVerdict verdict = Refuse(syndrome, event);
  nak_psn_ = psn;
  return verdict;
}

}  // namespace urnic::rc
