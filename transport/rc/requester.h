#pragma once

// The sending half of an RC requester: work requests become packets. Sans-IO;
// the caller owns the slots and the time.

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "transport/base/mutation.h"
#include "transport/rc/packet_writer.h"
#include "transport/rc/repeater.h"
#include "transport/rc/send_state.h"

namespace urnic::rc {

// Keeps no state: one is made for each call.
class Requester {
 public:
  explicit Requester(SendState& state) : s_(state) {}

  // Fills up to slots.size() slots; returns how many. Stops at the window, at
  // max_rd_atomic, at a fence, during an RNR wait, at the pacing rate, and when
  // nothing more is posted.
  uint32_t Transmit(Time now, std::span<TxSlot> slots) {
    uint32_t count = 0;
    if (!IsIdle() && s_.running &&
        !MUTATION(sends_in_an_rnr_wait, s_.rnr_waiting, false) &&
        !s_.pace_waiting) {
      limit_ = s_.FlightLimit();
      const bool paced = s_.pacer.active() || s_.path->cc.pacer.active();
      count = __builtin_expect(paced, 0) ? Pace(now, slots)
                                         : TransmitNow(now, slots);
    }
    if (__builtin_expect(s_.granted != 0, 0)) UseGrant(count, slots.size());
    return count;
  }

  // What Transmit() would do now. It may miss only a request that the program
  // is posting at this moment.
  enum class Wish : uint8_t {
    kNothing,  // it would send nothing
    kSend,
    kWait,  // there is something to send, but the path's window is full
  };
  Wish Wants() const { return IsIdle() ? Wish::kNothing : WantsToSend(); }
  bool HasWork() const { return Wants() == Wish::kSend; }
  // REQUIRES: Wants() is kWait
  PathWait Waits() const {
    const bool little = s_.InFlight() == 0 && s_.next == s_.assigned &&
                        s_.sq.Posted(s_.next) == 1 && NextIsShort();
    return MUTATION(knows_no_little_requests, little, false)
               ? PathWait::kFirst
               : PathWait::kInTurn;
  }

  // Nothing is left to send but one RDMA write. (The request may change until
  // it is sent: this decides no more than an order.)
  bool OneWriteIsPosted() const {
    return s_.next == s_.assigned && s_.sq.Posted(s_.next) == 1 &&
           s_.sq.Read<urnic_sq_wqe>(s_.next).opcode == URNIC_WR_RDMA_WRITE;
  }

  // The payload of work request `index` could not be read.
  void OnGatherFault(uint32_t index) {
    (void)writer().Fail(index, URNIC_WC_LOC_PROT_ERR);
  }

 private:
  // All posted requests have been sent, and nothing must be resent.
  bool IsIdle() const {
    return s_.next == s_.assigned && s_.sq.Posted(s_.next) == 0 &&
           !Repeater(s_).HasWork();
  }
  [[gnu::noinline]] Wish WantsToSend() const {
    if (!s_.running || s_.rnr_waiting || s_.pace_waiting) return Wish::kNothing;
    const bool repeats = Repeater(s_).HasWork();
    if (!repeats && (AtFailure() || !AnyUnsent())) return Wish::kNothing;
    const uint32_t limit = s_.FlightLimit();
    const uint32_t of_new = s_.LimitOfNew(limit);
    if (repeats ? Repeater(s_).MayGo(limit) : !s_.WindowClosed(of_new)) {
      return Wish::kSend;
    }
    const bool peer_is_full = !repeats && of_new < limit;
    return s_.silent || peer_is_full ? Wish::kNothing : Wish::kWait;
  }
  // Whether there are unsent requests that need not wait for responses.
  bool AnyUnsent() const {
    if (s_.next != s_.assigned) return !s_.current_index_valid || !Blocked();
    const uint32_t ready = s_.sq.Posted(s_.next);
    return ready != 0 && !(s_.draining && s_.next == s_.drain_limit);
  }

  // Accounts granted packets that were sent. Returns the rest of the grant if
  // it cannot be used now, because others wait for it.
  [[gnu::cold, gnu::noinline]] void UseGrant(uint32_t count, size_t room) {
    const bool more =
        s_.pace_waiting ? !IsIdle() : count == room && Wants() == Wish::kSend;
    MUTATION_SKIPS(keeps_grants)
    s_.granted = more ? s_.granted - std::min(s_.granted, count) : 0;
  }

  //= IBTA 9.11: a queue pair sends no faster than its static rate
  // Sends as much as the rates allow now, ours and the path's, then waits until
  // the next packet may leave.
  [[gnu::cold, gnu::noinline]] uint32_t Pace(Time now,
                                             std::span<TxSlot> slots) {
    const uint32_t packet = kMaxHeaderBytes + s_.config.mtu;
    size_t allowed = slots.size();
    struct Rate {
      cc::Pacer& pacer;
      Duration catch_up;
    };
    const Rate rates[] = {{s_.pacer, cc::Pacer::kCatchUp},
                          {s_.path->cc.pacer, s_.path->cc.CatchUp()}};
    for (const auto& [pacer, catch_up] : rates) {
      if (!pacer.active()) continue;
      allowed =
          std::min<uint64_t>(allowed, pacer.Allowed(now, packet, catch_up));
    }
    const uint32_t count = TransmitNow(now, slots.first(allowed));
    uint64_t bytes = 0;
    for (const TxSlot& slot : slots.first(count)) {
      bytes += slot.header_bytes + slot.payload_bytes + slot.pad_bytes;
    }
    for (const auto& [pacer, catch_up] : rates) {
      if (count != 0 && pacer.active()) pacer.OnSend(now, bytes, catch_up);
    }
    s_.paced_until = std::max(s_.pacer.next_send, s_.path->cc.pacer.next_send);
    s_.pace_waiting = s_.paced_until > now;
    return count;
  }

  uint32_t TransmitNow(Time now, std::span<TxSlot> slots) {
    uint32_t count = 0;
    if (__builtin_expect(Repeater(s_).HasWork(), 0))
      count = Repeater(s_).Repeat(now, limit_, slots);
    limit_ = s_.LimitOfNew(limit_);
    return count + TransmitNext(now, slots.subspan(count));
  }

  uint32_t TransmitNext(Time now, std::span<TxSlot> slots) {
    if (slots.empty()) return 0;
    const bool was_idle = !s_.Outstanding();
    const Psn fresh = s_.sent_psn;
    const bool resends = s_.tx_psn != fresh;
    uint32_t count = Fill(slots);
    // If a request failed in Fill(), earlier ones may have to be resent now.
    if (count == 0 && s_.failed) count = Fill(slots);
    if (count == 0) return 0;
    RequestAckOfBurst(slots[count - 1], now);
    MUTATION_SKIPS(forgets_timer)
    if (was_idle || s_.deadline().IsInfinite()) s_.ArmTimer(now);
    if (was_idle) s_.sent_since = now;
    if (s_.unacked_since_request == 0 && !resends && s_.tx_psn - fresh > 0) {
      // For a read, the round trip ends with its first response.
      const auto* last =
          reinterpret_cast<const wire::Bth*>(slots[count - 1].headers);
      s_.timer.OnSend(last->psn().Next(), now);
    }
    return count;
  }

  uint32_t Fill(std::span<TxSlot> slots) {
    uint32_t count = 0;
    while (true) {
      count += FillShort(slots.subspan(count));
      if (count == slots.size() || !Ready() || !BuildPacket(slots[count])) {
        return count;
      }
      if (s_.unacked_since_request >= s_.path->cc.AckEvery())
        SetAckReq(slots[count]);
      ++count;
    }
  }

  // Builds the packets of consecutive short requests (ReadShort), sent for the
  // first time, all with inline data or all without. Most requests are short. A
  // write of 8 bytes, completion included, takes 224 instructions this way and
  // 530 the general way.
  uint32_t FillShort(std::span<TxSlot> slots) {
    if (s_.next != s_.assigned || s_.failed || s_.draining || s_.limits.xrc ||
        s_.limits.max_sge_send == 0 || s_.InFlight() >= limit_) {
      return 0;
    }
    // The program may still be writing entries that it has not posted.
    if (s_.next == s_.posted && !RefreshPosted()) return 0;
    return NextIsInline() ? FillShort<true>(slots) : FillShort<false>(slots);
  }

  // Whether the next request seems to need one packet. It is not checked yet.
  [[gnu::cold]] bool NextIsShort() const {
    if (NextIsInline()) return true;
    const auto pieces = static_cast<uint16_t>(
        s_.sq.ReadWord(s_.next, 0) >> 8 * offsetof(urnic_sq_wqe, num_sge));
    if (pieces != 1) return pieces == 0;
    const auto length = static_cast<uint32_t>(s_.sq.ReadWord(
        s_.next, sizeof(urnic_sq_wqe) + offsetof(urnic_sge, length)));
    return length <= s_.config.mtu;
  }

  bool NextIsInline() const {
    return (s_.sq.ReadWord(s_.next, 0) >> 8 * offsetof(urnic_sq_wqe, flags) &
            URNIC_SEND_INLINE) != 0;
  }

  template <bool kInline>
  uint32_t FillShort(std::span<TxSlot> slots) {
    const uint32_t limit =
        std::min({static_cast<uint32_t>(slots.size()),
                  MUTATION(short_requests_pass_their_ring, s_.posted - s_.next,
                           s_.posted - s_.next + 1),
                  limit_ - s_.InFlight()});
    const uint32_t ack_every = s_.path->cc.AckEvery();
    uint32_t unacked = s_.unacked_since_request;
    uint32_t count = 0;
    ShortRequest request;
    for (; count < limit && ReadShort<kInline>(s_.next + count, request);
         ++count) {
      const bool ack = ++unacked >= ack_every;
      if (ack) unacked = 0;
      WriteShort(slots[count], s_.next + count,
                 s_.next_psn + static_cast<int32_t>(count), ack, request);
    }
    // Nothing is being resent: the three PSNs are equal, and the two indices.
    s_.next_psn = s_.next_psn + static_cast<int32_t>(count);
    s_.tx_psn = s_.sent_psn = s_.next_psn;
    s_.assigned = s_.next += count;
    s_.counters.requests_sent += count;
    s_.unacked_since_request = unacked;
    return count;
  }

  // A write or send of one packet, from one piece of registered memory or
  // inline data, without fence or immediate.
  struct ShortRequest {
    bool write;
    bool signaled;
    bool solicited;
    uint32_t length;
    uint64_t source;  // already checked
    uint64_t remote_addr;
    uint32_t rkey;
  };

  // False if work request `index` is not short, or is faulty. Each word of the
  // ring is read once; the general code reads it again and makes its own
  // checks.
  template <bool kInline>
  bool ReadShort(uint32_t index, ShortRequest& out) const {
    constexpr uint32_t kFlagsAt = 8 * offsetof(urnic_sq_wqe, flags);
    constexpr uint32_t kSizeAt = 8 * offsetof(urnic_sq_wqe, num_sge);
    constexpr uint32_t kAnyFlags = (URNIC_SEND_SIGNALED | URNIC_SEND_SOLICITED)
                                   << kFlagsAt;
    constexpr uint32_t kWanted =
        kInline ? URNIC_SEND_INLINE << kFlagsAt : 1u << kSizeAt;
    const auto head = static_cast<uint32_t>(s_.sq.ReadWord(index, 0));
    uint32_t kind = head & ~kAnyFlags;
    if (kInline) kind &= (1u << kSizeAt) - 1;
    out.write = kind == (kWanted | URNIC_WR_RDMA_WRITE);
    if (!out.write && kind != (kWanted | URNIC_WR_SEND)) return false;
    if (!(kInline ? FindInline(index, head >> kSizeAt, out)
                  : FindPiece(index, out))) {
      return false;
    }
    out.signaled =
        s_.limits.sq_sig_all || (head >> 8 & URNIC_SEND_SIGNALED) != 0;
    out.solicited = (head >> 8 & URNIC_SEND_SOLICITED) != 0;
    out.remote_addr =
        s_.sq.ReadWord(index, offsetof(urnic_sq_wqe, remote_addr));
    out.rkey = static_cast<uint32_t>(
        s_.sq.ReadWord(index, offsetof(urnic_sq_wqe, rkey)));
    return true;
  }

  // The data stays in the ring and is gathered from there.
  [[gnu::always_inline]] bool FindInline(uint32_t index, uint32_t bytes,
                                         ShortRequest& out) const {
    out.length = bytes;
    out.source = s_.sq.InlineAddress(index);
    return bytes - 1 < s_.config.mtu && bytes <= s_.limits.max_inline;
  }

  [[gnu::always_inline]] bool FindPiece(uint32_t index,
                                        ShortRequest& out) const {
    const uint64_t source = s_.sq.ReadWord(index, sizeof(urnic_sq_wqe));
    const uint64_t length_key = s_.sq.ReadWord(
        index, sizeof(urnic_sq_wqe) + offsetof(urnic_sge, length));
    out.length = static_cast<uint32_t>(length_key);
    if (out.length - 1 >= s_.config.mtu) return false;  // also if empty
    const mem::Translation at =
        s_.mrs->CheckLocal(MrKey{static_cast<uint32_t>(length_key >> 32)},
                           s_.limits.pd, source, out.length, mem::kLocalRead);
    out.source = at.host;
    MUTATION_ADDS(short_requests_ignore_keys, if (!at.ok()) out.source = source;
                  return true;)
    return at.ok();
  }

  // Writes the packet and the record of a short request.
  [[gnu::always_inline]] void WriteShort(TxSlot& slot, uint32_t index, Psn psn,
                                         bool ack, const ShortRequest& r) {
    const auto pad = static_cast<uint8_t>(-r.length & 3);
    slot.from_responder = false;
    slot.origin = index;
    slot.pad_bytes = pad;
    slot.payload_bytes = r.length;
    slot.segment_count = 1;
    slot.segments[0] = {r.source, r.length};
    wire::Bth bth;
    bth.opcode = static_cast<uint8_t>(r.write ? wire::Opcode::kRcWriteOnly
                                              : wire::Opcode::kRcSendOnly);
    bth.flags = wire::Bth::MakeFlags(r.solicited && !r.write, true, pad);
    bth.pkey = wire::Be<uint16_t>(s_.config.pkey);
    bth.fecn_becn_qpn = wire::Be<uint32_t>(s_.config.dest_qpn);
    bth.ack_psn = wire::Bth::MakeAckPsn(ack, psn);
    std::memcpy(slot.headers, &bth, sizeof(bth));
    slot.header_bytes = sizeof(bth);
    if (r.write) {
      wire::Reth reth;
      reth.virtual_address = wire::Be<uint64_t>(r.remote_addr);
      reth.rkey = wire::Be<uint32_t>(r.rkey);
      reth.dma_length = wire::Be<uint32_t>(r.length);
      PacketWriter::Append(slot, reth);
    }
    s_.RecordOf(index) = SendRecord{
        .first_psn = psn,
        .packets = 1,
        .length = r.length,
        .opcode =
            static_cast<uint8_t>(r.write ? URNIC_WR_RDMA_WRITE : URNIC_WR_SEND),
        .signaled = r.signaled};
  }

  bool AtFailure() const {
    return s_.failed && static_cast<int32_t>(s_.next - s_.failed_index) >= 0;
  }

  // Whether a packet may be sent now. Loads the work request if necessary, and
  // executes local requests, which need no packet.
  bool Ready() {
    while (ReadyToGo()) {
      if (__builtin_expect(!Contains(kLocalRequests, s_.current.wqe.opcode), 1))
        return true;
      if (!ExecuteLocal()) return false;
    }
    return false;
  }

  [[gnu::always_inline]] bool ReadyToGo() {
    if (AtFailure() || s_.WindowClosed(limit_)) return false;
    if (s_.next == s_.assigned) {
      if (s_.next == s_.posted && !RefreshPosted()) return false;
      if (s_.draining && s_.next == s_.drain_limit) return false;
      if (!StartNew()) return false;
    } else if (!s_.current_index_valid && !writer().Reload()) {
      return false;
    }
    return !Blocked();
  }

  // Whether the loaded work request must wait for responses to earlier ones.
  bool Blocked() const {
    if (s_.reads_in_flight == 0) return false;
    //= IBTA 9.7.3.1: a requester has at most max_rd_atomic reads and atomics
    //= outstanding
    MUTATION_SKIPS(ignores_max_rd_atomic)
    if (Contains(kAnsweredRequests, s_.RecordOf(s_.next).opcode) &&
        s_.reads_in_flight >= s_.config.max_rd_atomic) {
      return true;
    }
    //= IBTA 10.8.3.3: a fenced request waits for all earlier reads and atomics
    return MUTATION(ignores_fences,
                    (s_.current.wqe.flags & URNIC_SEND_FENCE) != 0, false) &&
           s_.next_offset == 0;
  }

  // Local requests are executed in order and, if fenced, after earlier reads
  // and atomics.
  [[gnu::cold, gnu::noinline]] bool ExecuteLocal() {
    SendRecord& record = s_.RecordOf(s_.next);
    if (!record.executed() &&
        s_.current.ExecuteLocal(*s_.mrs, s_.limits) != mem::MemFault::kNone) {
      return writer().Fail(s_.next, s_.current.LocalFailure());
    }
    record.part_shift = SendRecord::kExecuted;
    s_.any_executed = true;
    ++s_.next;
    s_.current_index_valid = false;
    s_.SkipExecuted();
    return true;
  }

  bool RefreshPosted() {
    const uint32_t ready = s_.sq.Posted(s_.next);
    if (ready == UINT32_MAX || ready + (s_.next - s_.head) > s_.sq.entries()) {
      return writer().Fail(s_.next, URNIC_WC_LOC_QP_OP_ERR);
    }
    s_.posted = s_.next + ready;
    return ready != 0;
  }

  bool StartNew() {
    uint64_t length = 0;
    if (!writer().Load(length))
      return writer().Fail(s_.next, URNIC_WC_LOC_QP_OP_ERR);
    const urnic_sq_wqe& wqe = s_.current.wqe;
    if (length > URNIC_MAX_MESSAGE_BYTES) {
      return writer().Fail(s_.next, URNIC_WC_LOC_LEN_ERR);
    }
    // A division costs as much as the rest of a short request's bookkeeping.
    uint32_t packets = 1;
    if (length > s_.config.mtu) {
      packets =
          static_cast<uint32_t>((length + s_.config.mtu - 1) / s_.config.mtu);
    }
    if (__builtin_expect(
            wqe.opcode > 31 || !Contains(kRequestsOfAnyLength, wqe.opcode),
            0)) {
      const uint8_t status = CheckFixedLength(wqe.opcode, length, packets);
      if (status != URNIC_WC_SUCCESS) return writer().Fail(s_.next, status);
    }
    if (Contains(kAnsweredRequests, wqe.opcode) &&
        s_.config.max_rd_atomic == 0) {
      return writer().Fail(s_.next,
                           URNIC_WC_LOC_QP_OP_ERR);  // it can never be sent
    }
    if (!CheckKeys(length, packets)) {
      return writer().Fail(s_.next, URNIC_WC_LOC_PROT_ERR);
    }
    s_.RecordOf(s_.next) =
        SendRecord{.first_psn = s_.next_psn,
                   .packets = packets,
                   .length = static_cast<uint32_t>(length),
                   .opcode = wqe.opcode,
                   .signaled = s_.limits.sq_sig_all ||
                               (wqe.flags & URNIC_SEND_SIGNALED) != 0,
                   .part_shift = PartShift(wqe.opcode)};
    s_.next_psn = s_.next_psn + static_cast<int32_t>(packets);
    s_.assigned = s_.next + 1;
    s_.next_offset = 0;
    return true;
  }

  // The part size of a read: half of the current window, but at least four
  // packets, and not more than a grant if others wait.
  uint8_t PartShift(uint8_t opcode) const {
    if (opcode != URNIC_WR_RDMA_READ) return 0;
    uint32_t half = std::max(4u, s_.path->cc.usual_window() / 2);
    if (s_.path->waiting != 0) half = std::min(half, cc::SharedPath::kGrant);
    return static_cast<uint8_t>(std::bit_width(half) - 1);
  }

  // Checks a request whose opcode fixes its length. Local ones take no packet.
  [[gnu::cold, gnu::noinline]] static uint8_t CheckFixedLength(
      uint8_t opcode, uint64_t length, uint32_t& packets) {
    const RequestKind* kind = FindRequest(opcode);
    if (kind == nullptr) return URNIC_WC_LOC_QP_OP_ERR;
    packets = kind->local() ? 0 : 1;
    return length == static_cast<uint64_t>(kind->fixed_length)
               ? URNIC_WC_SUCCESS
               : URNIC_WC_LOC_LEN_ERR;
  }

  // A request of one packet is checked when it is gathered. Longer ones, and
  // those whose data comes with a response, are checked before anything is
  // sent.
  bool CheckKeys(uint64_t length, uint32_t packets) {
    const bool response = Contains(kScatteringRequests, s_.current.wqe.opcode);
    if ((packets == 1 && !response) || length == 0) return true;
    return s_.current.Check(s_.sq, s_.next, *s_.mrs, s_.limits.pd,
                            static_cast<uint32_t>(length),
                            response ? mem::kLocalWrite : mem::kLocalRead);
  }

  bool BuildPacket(TxSlot& slot) {
    SendRecord& record = s_.RecordOf(s_.next);
    const Psn first = s_.tx_psn;
    if (!writer().Compose(slot)) return false;
    if (Contains(kAnsweredRequests, record.opcode)) {
      ++record.reads_in_flight;
      ++s_.reads_in_flight;
    }
    ++s_.counters.requests_sent;
    if (s_.sent_psn - first > 0) ++s_.counters.requests_resent;
    if (s_.tx_psn - s_.sent_psn > 0) s_.sent_psn = s_.tx_psn;
    ++s_.unacked_since_request;
    return true;
  }

  // Sets AckReq on the last packet of a burst if it ends a message or closes
  // the window. Fill() sets it within a long message.
  void RequestAckOfBurst(TxSlot& last, Time now) {
    const auto* bth = reinterpret_cast<const wire::Bth*>(last.headers);
    const bool full = s_.InFlight() >= limit_;
    if (full) s_.path->OnFull(now);
    if (full || wire::InfoOf(bth->opcode).last) SetAckReq(last);
  }

  void SetAckReq(TxSlot& slot) {
    auto* bth = reinterpret_cast<wire::Bth*>(slot.headers);
    bth->ack_psn = wire::Bth::MakeAckPsn(true, bth->psn());
    s_.unacked_since_request = 0;
  }

  PacketWriter writer() { return PacketWriter(s_); }

  SendState& s_;
  uint32_t limit_ = 0;  // how many packets may be in flight
};

}  // namespace urnic::rc
