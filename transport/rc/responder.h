#pragma once

// The responder half of an RC queue pair: requests become placements, receive
// completions, and responses. Sans-IO. Any packet in any state gets a verdict.

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "transport/base/fields.h"
#include "transport/base/mutation.h"
#include "transport/cc/notification_point.h"
#include "transport/mem/mr_table.h"
#include "transport/rc/recovery.h"
#include "transport/rc/replay.h"
#include "transport/rc/response_headers.h"
#include "transport/work/cnp.h"
#include "transport/work/recv_queue.h"
#include "transport/work/refused_access.h"
#include "transport/work/types.h"

namespace urnic::rc {

class Responder {
 public:
  // `replay` is as ReplayRing requires; they all outlive the responder.
  Responder(const QpLimits& limits, RecvQueue* recv_queue,
            std::span<ReplaySlot> replay, mem::MrTable* mrs, RecoveryPool* pool)
      : replay_(replay),
        pool_(pool),
        mrs_(mrs),
        rq_(recv_queue),
        qpn_(limits.qpn),
        pd_(limits.pd),
        xrc_(limits.xrc) {}
  ~Responder() {
    if (held_ != nullptr) pool_->Return(held_);
  }

  // RESET to RTR. `config.rq_psn` is the first PSN expected.
  void Start(const QpConfig& config);
  // qp_access_flags and min_rnr_timer may change in any state,
  // max_dest_rd_atomic in SQD.
  void Reconfigure(const QpConfig& config) {
    Use(config);
    replay_.SetLimit(config.max_dest_rd_atomic);
  }
  // See Qp::MoveReplayTo().
  uint32_t replay_capacity() const { return replay_.capacity(); }
  void MoveReplayTo(std::span<ReplaySlot> storage) { replay_.MoveTo(storage); }

  // The owner moves to ERR or RESET: nothing more is received or sent.
  void Stop();

  // A request. `sink` takes Place(Placement) and Complete(RecvCompletion).
  template <typename Sink>
  RxVerdict OnRequest(const RxPacket& packet, uint8_t position, Sink& sink) {
    if (__builtin_expect(!established_, 0)) {
      if (!receiving_) return RxVerdict::kQpNotReady;
      established_ = true;
      event_ = QpEvent::kCommEstablished;
    }
    const int32_t distance = packet.psn() - expected_;
    if (MUTATION(ignores_gaps, distance > 0, false)) return OnGap(packet);
    MUTATION_SKIPS(executes_duplicates)
    if (distance < 0 &&
        MUTATION(executes_duplicate_atomics, true,
                 packet.info->kind != wire::PacketKind::kAtomic))
      return OnDuplicate(packet);
    if (__builtin_expect(xrc_, 0)) {
      const RxVerdict domain = EnterDomain(packet);
      if (domain != RxVerdict::kAccept) return domain;
    }
    const RxVerdict shape = CheckShape(packet);
    if (shape != RxVerdict::kAccept) return shape;
    if (packet.info->kind == wire::PacketKind::kWrite) {
      return OnWrite(packet, position, sink);
    }
    switch (packet.info->kind) {
      case wire::PacketKind::kSend:
        return OnSend(packet, position, sink);
      case wire::PacketKind::kReadRequest:
        return OnRead(packet);
      case wire::PacketKind::kAtomicWrite:
        return OnAtomicWrite(packet, position, sink);
      case wire::PacketKind::kFlush:
        return OnFlush(packet);
      default:
        return OnAtomic(packet, position, sink);
    }
  }

  // Call this after a burst; `before` is the PSN that was expected before it.
  // Reports the next gap.
  void EndBurst(std::span<const RxPacket> packets, Psn before) {
    if (__builtin_expect(held_ != nullptr, 0)) LookBehindGap(packets, before);
  }
  // Takes held requests that are due now; see Qp::TakeDue().
  uint32_t TakeDue(std::span<RxPacket> out) {
    return held_ == nullptr ? 0 : TakeHeld(out);
  }
  bool holds() const { return held_ != nullptr; }

  // A request, valid or not, was marked "congestion experienced".
  void OnMarked(Time now) {
    if (receiving_) notifier_.OnMarked(now);
  }

  // A congestion notification; then read and atomic responses in order; then at
  // most one ACK or NAK: it never overtakes a response that is owed.
  uint32_t Transmit(std::span<TxSlot> slots) {
    uint32_t count = 0;
    if (__builtin_expect(notifier_.due, 0) && !slots.empty()) {
      WriteCnp(slots[count++], dest_qpn_, pkey_);
      notifier_.due = false;
      ++pool_->counters().np_cnp_sent;
    }
    MUTATION_ADDS(acks_before_reads,
                  if (!slots.empty() && AckWaits()) WriteAck(slots[count++]);)
    while (count < slots.size() && replay_.AnyPending()) {
      ReplaySlot& slot = replay_.OldestPending();
      if (slot.kind == ReplaySlot::Kind::kAtomic) {
        WriteAtomicAck(slots[count++], slot);
      } else if (WriteReadResponse(slots[count], slot)) {
        ++count;
      }
    }
    if (count < slots.size() && !replay_.AnyPending() && AckWaits())
      WriteAck(slots[count++]);
    return count;
  }

  bool AnswersWait() const { return replay_.AnyPending() || notifier_.due; }
  bool HasWork() const { return AnswersWait() || AckWaits(); }
  // There is only an acknowledgement to send, which may go with later packets.
  bool OnlyAckWaits() const { return !AnswersWait() && AckWaits(); }
  void TransmitAck(TxSlot& slot) { WriteAck(slot); }  // REQUIRES: that

  // A placement of a request failed: its packet and all later ones of the burst
  // count as not executed. Their completions turn into errors, and the NAK
  // names this packet.
  void OnPlacementFault(const Placement& placement,
                        std::span<RecvCompletion> completions);

  // The memory of the read response with PSN `psn` could not be read.
  void OnGatherFault(Psn psn);

  // The next receive request to flush in state ERR.
  bool PollFlush(RecvCompletion& out);

  // Set by a fatal NAK: the owner moves the queue pair to ERR. The NAK itself
  // still goes out through Transmit().
  bool failed() const { return failed_; }
  QpEvent TakeEvent() { return std::exchange(event_, QpEvent::kNone); }
  RecvQueue& recv_queue() const { return *rq_; }
  MrKey write_key() const { return write_.key; }
  // With QpEvent::kAccessError: the refused access. Without a key: an XRC
  // request has named no existing queue.
  RefusedAccess refused() const {
    return Examine(write_, refused_, *mrs_, pd_, qpn_, access_);
  }
  const ReplayRing& replay() const { return replay_; }
  Psn expected_psn() const { return expected_; }
  uint32_t msn() const { return msn_; }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  enum class Message : uint8_t { kNone, kSend, kWrite };
  // What a NAK for the expected PSN has already reported.
  enum class Reported : uint8_t { kNothing, kGap, kNotReady };

  // Copies what it needs of the configuration.
  void Use(const QpConfig& config);

  bool AckWaits() const { return ack_due_ || nak_due_ != 0; }

  //= IBTA A14: an XRC request uses the receives and PD of the SRQ that it names
  RxVerdict EnterDomain(const RxPacket& packet) {
    if (packet.xrc_ring == nullptr)
      return RefuseAccess({}, RefusedAccess::kNoRequest);
    // A message goes to one queue, which may have been destroyed meanwhile.
    if (message_ != Message::kNone && packet.xrc_ring != rq_->ring())
      return RefuseRequest();
    pd_ = packet.xrc_ring->pd();
    if (!rq_->taken()) rq_->Use(packet.xrc_ring);
    return RxVerdict::kAccept;
  }

  RxVerdict OnGap(const RxPacket& packet);
  // The verdict on a packet behind a gap; kAfterGap: it cannot be held.
  RxVerdict Hold(const RxPacket& packet);
  void ReportGap();
  [[gnu::cold, gnu::noinline]] void LookBehindGap(
      std::span<const RxPacket> packets, Psn was_expected);
  [[gnu::cold, gnu::noinline]] uint32_t TakeHeld(std::span<RxPacket> out);
  // Drops the held packets; the peer sends them again.
  void DropHeld();
  // Returns the list to the pool if it is empty.
  void ReturnIdleList();
  // How many PSNs a request covers; 0: more than can be held.
  uint32_t PsnsOf(const RxPacket& packet) const;

  // Ends the connection with a NAK for the expected PSN.
  RxVerdict Refuse(uint8_t syndrome, QpEvent event) {
    DropHeld();
    nak_due_ = syndrome;
    nak_psn_ = expected_;
    failed_ = true;
    receiving_ = established_ = false;
    event_ = event;
    switch (syndrome) {
      case wire::kNakInvalidRequest:
        return RxVerdict::kInvalidRequest;
      case wire::kNakRemoteAccessError:
        ++pool_->counters().resp_remote_access_errors;
        return RxVerdict::kRemoteAccess;
      default:
        return RxVerdict::kRemoteOperational;
    }
  }
  RxVerdict RefuseRequest() {
    return Refuse(wire::kNakInvalidRequest, QpEvent::kRequestError);
  }
  // `request`: enum urnic_wr_opcode
  RxVerdict RefuseAccess(const RemoteRange& range, uint8_t request) {
    write_ = range;
    refused_ = request;
    return Refuse(wire::kNakRemoteAccessError, QpEvent::kAccessError);
  }

  //= IBTA 9.7.4.1.2, 9.7.4.1.6: opcode order and payload lengths are checked
  RxVerdict CheckShape(const RxPacket& packet) {
    const wire::OpcodeInfo& info = *packet.info;
    // Only sends and writes can have more than one packet.
    const Message wanted = info.first ? Message::kNone
                           : info.kind == wire::PacketKind::kSend
                               ? Message::kSend
                               : Message::kWrite;
    if (message_ != wanted) return RefuseRequest();
    const uint32_t bytes = packet.payload_bytes;
    const bool length_ok =
        info.last ? bytes <= mtu_ && (info.first || bytes > 0) : bytes == mtu_;
    return length_ok ? RxVerdict::kAccept : RefuseRequest();
  }

  void Advance(const RxPacket& packet, uint32_t psns) {
    expected_ = expected_ + static_cast<int32_t>(psns);
    reported_ = Reported::kNothing;
    if (nak_due_ != 0) MoveNak();
    if (packet.info->last) msn_ = (msn_ + 1) & 0x00ffffff;
    if (packet.bth->ack_requested()) ack_due_ = true;
  }

  // The packet that a NAK names has arrived before the NAK was sent. Packets
  // that were dropped after it are still missing.
  void MoveNak() {
    const bool gap = dropped_psn_ - expected_ >= 0;
    reported_ = gap ? Reported::kGap : Reported::kNothing;
    nak_psn_ = expected_;
    nak_due_ = gap ? wire::kNakPsnSequenceError : uint8_t{0};
  }

  RxVerdict OnNoReceive() {
    //= IBTA 9.7.5.2.8: after an RNR NAK, only the PSN that it names is accepted
    DropHeld();
    reported_ = Reported::kNotReady;
    dropped_psn_ = expected_;
    nak_psn_ = expected_;
    nak_due_ = wire::kAethRnrNak | (min_rnr_timer_ & 0x1f);
    return RxVerdict::kRnrNak;
  }

  // Takes a receive request for this packet, or returns why there is none.
  RxVerdict TakeReceive() {
    switch (rq_->Take()) {
      case RecvQueue::TakeResult::kTaken:
        return RxVerdict::kAccept;
      case RecvQueue::TakeResult::kEmpty:
        return OnNoReceive();
      default:
        return Refuse(wire::kNakRemoteOperationalError, QpEvent::kFatal);
    }
  }

  template <typename Sink>
  RxVerdict OnSend(const RxPacket& packet, uint8_t position, Sink& sink) {
    const wire::OpcodeInfo& info = *packet.info;
    const RxVerdict taken = TakeReceive();
    if (taken != RxVerdict::kAccept) return taken;
    if (info.first) offset_ = 0;
    if (info.has_ieth && !Invalidate(packet)) {
      return RefuseAccess({.key = MrKey{packet.ieth().rkey.value()}},
                          URNIC_WR_SEND_WITH_INV);
    }
    const uint8_t* data = packet.payload;
    const WalkResult walk =
        rq_->Walk(offset_, packet.payload_bytes, *mrs_, pd_,
                  [&](uint64_t address, uint32_t piece) {
                    sink.Place(Placement{.packet = position,
                                         .from_responder = true,
                                         .to_receive = true,
                                         .origin = packet.psn().value(),
                                         .bytes = piece,
                                         .target = address,
                                         .source = data});
                    data += piece;
                  });
    if (walk != WalkResult::kOk) return OnReceiveFault(walk);
    offset_ += packet.payload_bytes;
    message_ = info.last ? Message::kNone : Message::kSend;
    Advance(packet, 1);
    if (info.last) CompleteReceive(packet, position, URNIC_WC_RECV, sink);
    return RxVerdict::kAccept;
  }

  mem::Translation Check(MrKey key, uint32_t pd, uint64_t address,
                         uint64_t bytes, uint32_t rights) const {
    return mrs_->CheckRemote(key, pd, qpn_, address, bytes, rights);
  }

  bool Invalidate(const RxPacket& packet) {
    return mrs_->Invalidate(MrKey{packet.ieth().rkey.value()}, pd_, qpn_) ==
           mem::MemFault::kNone;
  }

  RxVerdict OnReceiveFault(WalkResult walk) {
    if (walk == WalkResult::kTooShort) {
      //= IBTA 9.7.4.1.6, 9.9.3.1.3: a message longer than its receive request
      //= is answered with NAK 0x61, invalid request (0x63 by Linux rxe)
      recv_status_ = URNIC_WC_LOC_LEN_ERR;
      ++pool_->counters().resp_local_length_error;
      return RefuseRequest();
    }
    recv_status_ = URNIC_WC_LOC_PROT_ERR;
    return Refuse(wire::kNakRemoteOperationalError, QpEvent::kFatal);
  }

  template <typename Sink>
  void CompleteReceive(const RxPacket& packet, uint8_t position, uint8_t opcode,
                       Sink& sink) {
    const wire::OpcodeInfo& info = *packet.info;
    RecvCompletion done{
        .packet = position,
        .opcode = opcode,
        .solicited = packet.bth->solicited(),
        .byte_len = static_cast<uint32_t>(offset_),
        .src_qp = dest_qpn_,
        .wr_id = rq_->Consume(),
    };
    if (info.has_imm) {
      done.wc_flags = URNIC_WC_WITH_IMM;
      std::memcpy(&done.imm_or_key, packet.imm().data, 4);
    } else if (info.has_ieth) {
      done.wc_flags = URNIC_WC_WITH_INV;
      done.imm_or_key = packet.ieth().rkey.value();
    }
    sink.Complete(done);
  }

  template <typename Sink>
  RxVerdict OnWrite(const RxPacket& packet, uint8_t position, Sink& sink) {
    const wire::OpcodeInfo& info = *packet.info;
    if ((access_ & mem::kRemoteWrite) == 0) return RefuseRequest();
    // This comes before any placement, because the packet comes again after an
    // RNR NAK.
    if (info.has_imm) {
      const RxVerdict taken = TakeReceive();
      if (taken != RxVerdict::kAccept) return taken;
    }
    RemoteRange range;
    const uint64_t begin = info.first ? 0 : offset_;
    if (info.first) {
      const wire::Reth& reth = packet.reth();
      range = {reth.virtual_address.value(), reth.dma_length.value(),
               MrKey{reth.rkey.value()}};
      if (range.length > URNIC_MAX_MESSAGE_BYTES) return RefuseRequest();
    } else {
      range = write_;
    }
    const uint64_t end = begin + packet.payload_bytes;
    if (info.last ? end != range.length : end >= range.length) {
      return RefuseRequest();
    }
    //= IBTA 9.7.4.1.5: the R_Key of a write or read of 0 bytes is not checked
    // The whole range is checked before the first byte is placed, and each
    // later packet's part again: the region may be gone by then.
    if (packet.payload_bytes != 0) {
      const mem::Translation at =
          Check(range.key, pd_, range.address + begin,
                info.first ? range.length : packet.payload_bytes,
                MUTATION(ignores_rights, mem::kRemoteWrite, 0));
      if (!at.ok()) return RefuseAccess(range, URNIC_WR_RDMA_WRITE);
      sink.Place(Placement{.packet = position,
                           .from_responder = true,
                           .origin = expected_.value(),
                           .bytes = packet.payload_bytes,
                           .target = at.host,
                           .source = packet.payload});
    }
    offset_ = end;
    message_ = Message::kNone;
    if (!info.last) {
      message_ = Message::kWrite;
      write_ = range;
    }
    Advance(packet, 1);
    if (info.has_imm)
      CompleteReceive(packet, position, URNIC_WC_RECV_RDMA_WITH_IMM, sink);
    return RxVerdict::kAccept;
  }

  RxVerdict OnRead(const RxPacket& packet) {
    //= IBTA 9.7.4.1.4: the queue pair must allow the operation
    if ((access_ & mem::kRemoteRead) == 0) return RefuseRequest();
    const wire::Reth& reth = packet.reth();
    const uint32_t length = reth.dma_length.value();
    if (length > URNIC_MAX_MESSAGE_BYTES) return RefuseRequest();
    const MrKey key{reth.rkey.value()};
    const uint64_t address = reth.virtual_address.value();
    if (length != 0 && !Check(key, pd_, address, length, mem::kRemoteRead).ok())
      return RefuseAccess({address, length, key}, URNIC_WR_RDMA_READ);
    //= IBTA 9.7.4.1.3: the responder holds at most max_dest_rd_atomic reads and
    //= atomics at a time
    ReplaySlot* slot = replay_.Add();
    if (slot == nullptr) {
      (void)RefuseRequest();
      return RxVerdict::kTooManyReads;
    }
    slot->kind = ReplaySlot::Kind::kRead;
    slot->first_psn = expected_;
    slot->packets = std::max(
        1u, static_cast<uint32_t>((uint64_t{length} + mtu_ - 1) / mtu_));
    slot->address = address;
    slot->rkey = key.value;
    slot->pd = pd_;
    slot->length = slot->answer_end = length;
    Advance(packet, slot->packets);
    slot->msn = msn_;
    ack_due_ = false;  // the response acknowledges all that came before
    replay_.MarkPending(*slot);
    return RxVerdict::kAccept;
  }

  template <typename Sink>
  RxVerdict OnAtomic(const RxPacket& packet, uint8_t position, Sink& sink) {
    const wire::AtomicEth& eth = packet.atomic_eth();
    const uint64_t address = eth.virtual_address.value();
    if ((access_ & mem::kRemoteAtomic) == 0) return RefuseRequest();
    //= IBTA 9.4.5: the address of an atomic is a multiple of eight
    if ((address & 7) != 0) return RefuseRequest();
    const MrKey key{eth.rkey.value()};
    constexpr uint8_t kOperation = 0x1f;
    const bool swap = (packet.bth->opcode & kOperation) ==
                      static_cast<uint8_t>(wire::Opcode::kRcCompareSwap);
    const mem::Translation at = Check(key, pd_, address, 8, mem::kRemoteAtomic);
    if (!at.ok()) {
      return RefuseAccess(
          {address, 8, key},
          swap ? URNIC_WR_ATOMIC_CMP_AND_SWP : URNIC_WR_ATOMIC_FETCH_AND_ADD);
    }
    if ((at.host & 7) != 0) return RefuseRequest();
    ReplaySlot* slot = replay_.Add();
    if (slot == nullptr) {
      (void)RefuseRequest();
      return RxVerdict::kTooManyReads;
    }
    slot->kind = ReplaySlot::Kind::kAtomic;
    slot->first_psn = expected_;
    slot->packets = 1;
    sink.Place(Placement{.kind = swap ? Placement::Kind::kCompareSwap
                                      : Placement::Kind::kFetchAdd,
                         .packet = position,
                         .from_responder = true,
                         .origin = packet.psn().value(),
                         .bytes = 8,
                         .target = at.host,
                         .compare = eth.compare.value(),
                         .swap_or_add = eth.swap_or_add.value(),
                         .original = &slot->original});
    Advance(packet, 1);
    slot->msn = msn_;
    ack_due_ = false;
    replay_.MarkPending(*slot);
    return RxVerdict::kAccept;
  }

  // The answer is an empty read response. A duplicate is answered again, but
  // not executed again.
  RxVerdict AnswerEmpty(const RxPacket& packet);

  //= IBTA A19.4.2: an atomic write stores eight aligned bytes in one step
  template <typename Sink>
  RxVerdict OnAtomicWrite(const RxPacket& packet, uint8_t position,
                          Sink& sink) {
    if ((access_ & mem::kRemoteWrite) == 0) return RefuseRequest();
    const wire::Reth& reth = packet.reth();
    const uint64_t address = reth.virtual_address.value();
    if (packet.payload_bytes != 8 || reth.dma_length.value() != 8 ||
        (address & 7) != 0)
      return RefuseRequest();
    const MrKey key{reth.rkey.value()};
    const mem::Translation at = Check(key, pd_, address, 8, mem::kRemoteWrite);
    if (!at.ok()) return RefuseAccess({address, 8, key}, URNIC_WR_ATOMIC_WRITE);
    if ((at.host & 7) != 0) return RefuseRequest();
    const Psn psn = expected_;
    const RxVerdict verdict = AnswerEmpty(packet);
    if (verdict == RxVerdict::kAccept) {
      sink.Place(Placement{.packet = position,
                           .from_responder = true,
                           .origin = psn.value(),
                           .bytes = 8,
                           .target = at.host,
                           .source = packet.payload});
    }
    return verdict;
  }

  //= IBTA A19.4.1: earlier data is visible before a flush is answered
  // Placements are executed in order and before any response is built.
  RxVerdict OnFlush(const RxPacket& packet);

  //= IBTA 9.7.5.1.2, 9.7.5.1.3, 9.7.5.1.4: a duplicate is not executed again
  RxVerdict OnDuplicate(const RxPacket& packet);

  // A duplicate may request the rest of a read, from the middle on. It must be
  // inside the original, and its key is checked again.
  RxVerdict OnDuplicateRead(const RxPacket& packet);

  // An accepted read cannot be answered: the memory or its key is gone. All
  // responses still owed are dropped; the NAK names the PSN of the missing one.
  RxVerdict FailRead(Psn psn, uint8_t syndrome, QpEvent event);

  void WriteBth(TxSlot& slot, wire::Opcode opcode, Psn psn) {
    WriteResponseBth(slot, dest_qpn_, pkey_, xrc_, opcode, psn);
  }

  void WriteAck(TxSlot& slot) {
    const bool nak = nak_due_ != 0;
    if (__builtin_expect(nak, 0)) NoteNak();
    WriteBth(slot, wire::Opcode::kRcAcknowledge,
             nak ? nak_psn_ : expected_ + -1);
    AppendAeth(slot,
               nak ? nak_due_ : wire::kAethAck | wire::kAethCreditsInvalid,
               msn_);
    if (__builtin_expect(held_ != nullptr, 0)) AppendHeld(slot);
    ack_due_ = false;
    nak_due_ = 0;
  }
  [[gnu::cold, gnu::noinline]] void NoteNak() const;
  // Appends the report of missing packets: with a bitmap if the peer marks
  // packets that it resends.
  [[gnu::cold, gnu::noinline]] void AppendHeld(TxSlot& slot);

  void WriteAtomicAck(TxSlot& out, ReplaySlot& slot);
  // False: its memory cannot be read; a NAK is due.
  bool WriteReadResponse(TxSlot& out, ReplaySlot& slot);

  ReplayRing replay_;
  // The next member is in its padding, because a queue pair has no more room
  // without another cache line.
  [[no_unique_address]] cc::NotificationPoint notifier_;
  uint8_t refused_ = RefusedAccess::kNoRequest;  // see RefuseAccess()
  RemoteRange write_;  // of the current write of several packets; see refused()
  Psn nak_psn_;
  // With a gap or held_: the newest dropped packet, if not before expected_.
  Psn dropped_psn_;
  HeldPackets* held_ = nullptr;  // null: nothing
  RecoveryPool* pool_;

  // The members that a packet uses are together. Limits and configuration,
  // which are in SendState, are copied here as needed.
  mem::MrTable* mrs_;
  RecvQueue* rq_;
  uint32_t qpn_;
  uint32_t pd_;  // of the queue pair, or of the latest XRC request
  uint32_t dest_qpn_ = 0;
  uint32_t mtu_ = 0;
  uint16_t access_ = 0;  // the rights of the queue pair, mem::kRemote...
  uint16_t pkey_ = 0;
  uint8_t min_rnr_timer_ = 0;
  bool xrc_;
  Message message_ = Message::kNone;
  bool receiving_ = false;
  bool established_ = false;  // a request has arrived while receiving_
  Reported reported_ = Reported::kNothing;
  bool peer_marks_ = false;  // the packets that it resends
  bool ack_due_ = false;
  bool failed_ = false;
  uint8_t nak_due_ = 0;                          // the syndrome; 0: none
  uint8_t recv_status_ = URNIC_WC_WR_FLUSH_ERR;  // of the next flushed receive
  QpEvent event_ = QpEvent::kNone;
  Psn expected_;
  uint32_t msn_ = 0;
  uint64_t offset_ = 0;  // bytes of the current message placed so far
};

}  // namespace urnic::rc
