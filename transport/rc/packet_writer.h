#pragma once

// Turns the work request at the transmit position into packets. The requester
// decides which packets are sent, and when.

#include <algorithm>
#include <cstring>

#include "transport/rc/send_state.h"

namespace urnic::rc {

// Has no state of its own: one is made for each call.
class PacketWriter {
 public:
  explicit PacketWriter(SendState& state) : s_(state) {}

  // Ends work request `index` with a local error; returns false. Earlier
  // unacknowledged requests are resent, because the packet that should have
  // requested their acknowledgement may not be sent any more.
  [[gnu::cold, gnu::noinline]] bool Fail(uint32_t index, uint8_t status) {
    s_.FailAt(index, status, RxVerdict::kAccept);
    if (s_.una != s_.assigned) s_.RewindToUna();
    return false;
  }

  // Copies the work request out of the ring and finds its length.
  bool Load(uint64_t& length) {
    s_.current_index_valid = true;
    return s_.current.Load(s_.sq, s_.next, s_.limits, length) &&
           (!s_.current.is_inline() ||
            !Contains(kAnsweredRequests, s_.current.wqe.opcode) ||
            Contains(kGatheringRequests, s_.current.wqe.opcode));
  }

  // Reads a work request again for retransmission. It fails if the program has
  // changed its length or opcode since: the packets would not fit their PSNs.
  // Other changes are the program's own fault.
  [[gnu::cold, gnu::noinline]] bool Reload() {
    uint64_t length = 0;
    const SendRecord& record = s_.RecordOf(s_.next);
    if (!Load(length) || length != record.length ||
        s_.current.wqe.opcode != record.opcode) {
      return Fail(s_.next, URNIC_WC_LOC_QP_OP_ERR);
    }
    return true;
  }

  // Writes the packet at the transmit position, and advances the position.
  // False: its memory cannot be read; the request has failed. A read request
  // asks for up to `psns_max` responses.
  bool Compose(TxSlot& slot, uint32_t psns_max = UINT32_MAX) {
    const SendRecord& record = s_.RecordOf(s_.next);
    slot.from_responder = false;
    slot.origin = s_.next;
    slot.payload_bytes = 0;
    slot.pad_bytes = 0;
    slot.segment_count = 0;
    uint32_t psns = 1;
    uint32_t bytes = 0;
    bool message_done = true;
    if (record.opcode == URNIC_WR_RDMA_READ) {
      const uint32_t index = s_.next_offset / s_.config.mtu;
      const uint32_t end = s_.EndOfReadPart(record, index);
      psns = std::min(end - index, psns_max);
      bytes = psns * s_.config.mtu;
      message_done = index + psns == record.packets;
      if (message_done) bytes = record.length - s_.next_offset;
      WriteReadRequest(slot, bytes);
    } else if (!Contains(kGatheringRequests, record.opcode)) {
      if (record.opcode == URNIC_WR_FLUSH) {
        WriteFlush(slot);
      } else {
        WriteAtomic(slot, record);
      }
    } else if (!WriteData(slot, record, message_done)) {
      return false;
    }
    s_.tx_psn = s_.tx_psn + static_cast<int32_t>(psns);
    if (message_done) {
      ++s_.next;
      s_.next_offset = 0;
      s_.current_index_valid = false;
    } else {
      s_.next_offset += bytes + slot.payload_bytes;
    }
    return true;
  }

  template <typename Header>
  static void Append(TxSlot& slot, const Header& header) {
    std::memcpy(slot.headers + slot.header_bytes, &header, sizeof(header));
    slot.header_bytes += sizeof(header);
  }

 private:
  void WriteBth(TxSlot& slot, wire::Opcode opcode, bool solicited) {
    auto* bth = reinterpret_cast<wire::Bth*>(slot.headers);
    bth->opcode = static_cast<uint8_t>(opcode);
    bth->flags = wire::Bth::MakeFlags(solicited, true, slot.pad_bytes);
    bth->pkey = wire::Be<uint16_t>(s_.config.pkey);
    bth->fecn_becn_qpn = wire::Be<uint32_t>(s_.config.dest_qpn);
    bth->ack_psn = wire::Bth::MakeAckPsn(false, s_.tx_psn);
    slot.header_bytes = sizeof(wire::Bth);
    if (__builtin_expect(s_.limits.xrc, 0)) {
      bth->opcode |= static_cast<uint8_t>(wire::Opcode::kXrcBase);
      Append(slot, wire::XrcEth{wire::Be<uint32_t>(s_.current.wqe.xrc_srqn &
                                                   0x00ffffff)});
    }
  }

  wire::Reth MakeReth(uint32_t offset, uint32_t length) const {
    wire::Reth reth;
    reth.virtual_address =
        wire::Be<uint64_t>(s_.current.wqe.remote_addr + offset);
    reth.rkey = wire::Be<uint32_t>(s_.current.wqe.rkey);
    reth.dma_length = wire::Be<uint32_t>(length);
    return reth;
  }

  //= IBTA 9.7.5.1.9: a repeated read request asks only for the data that has
  //= not arrived
  void WriteReadRequest(TxSlot& slot, uint32_t bytes) {
    WriteBth(slot, wire::Opcode::kRcReadRequest, false);
    Append(slot, MakeReth(s_.next_offset, bytes));
  }

  //= IBTA A19.4.1: a flush request names the memory that must become visible
  void WriteFlush(TxSlot& slot) {
    WriteBth(slot, wire::Opcode::kRcFlush, false);
    Append(slot, wire::Feth{wire::Be<uint32_t>(
                     static_cast<uint32_t>(s_.current.wqe.compare_add))});
    Append(slot, MakeReth(0, static_cast<uint32_t>(s_.current.wqe.swap)));
  }

  void WriteAtomic(TxSlot& slot, const SendRecord& record) {
    const bool swap = record.opcode == URNIC_WR_ATOMIC_CMP_AND_SWP;
    WriteBth(slot,
             swap ? wire::Opcode::kRcCompareSwap : wire::Opcode::kRcFetchAdd,
             false);
    wire::AtomicEth eth;
    eth.virtual_address = wire::Be<uint64_t>(s_.current.wqe.remote_addr);
    eth.rkey = wire::Be<uint32_t>(s_.current.wqe.rkey);
    eth.swap_or_add = wire::Be<uint64_t>(swap ? s_.current.wqe.swap
                                              : s_.current.wqe.compare_add);
    eth.compare = wire::Be<uint64_t>(swap ? s_.current.wqe.compare_add : 0);
    Append(slot, eth);
  }

  // Writes a packet of a send or write.
  bool WriteData(TxSlot& slot, const SendRecord& record, bool& last) {
    const uint32_t left = record.length - s_.next_offset;
    const uint32_t chunk = std::min(left, s_.config.mtu);
    const bool first = s_.next_offset == 0;
    last = chunk == left;
    if (!s_.current.Gather(s_.sq, s_.next, *s_.mrs, s_.limits.pd,
                           s_.next_offset, chunk, slot)) {
      return Fail(s_.next, URNIC_WC_LOC_PROT_ERR);
    }
    slot.payload_bytes = chunk;
    slot.pad_bytes = static_cast<uint8_t>(-chunk & 3);
    constexpr RequestSet kSends = RequestsOf(RequestFamily::kSend);
    const bool write = !Contains(kSends, record.opcode);
    const bool imm = last && Contains(kRequestsWithImm, record.opcode);
    const bool inv = last && record.opcode == URNIC_WR_SEND_WITH_INV;
    const bool solicited = last && (!write || imm) &&
                           (s_.current.wqe.flags & URNIC_SEND_SOLICITED) != 0;
    //= IBTA A19.4.2: an atomic write is a single packet with eight bytes of
    //= payload
    const wire::Opcode opcode = record.opcode == URNIC_WR_ATOMIC_WRITE
                                    ? wire::Opcode::kRcAtomicWrite
                                    : DataOpcode(write, first, last, imm, inv);
    WriteBth(slot, opcode, solicited);
    if (write && first) Append(slot, MakeReth(0, record.length));
    if (imm) {
      wire::ImmDt data;
      std::memcpy(data.data, &s_.current.wqe.imm_or_key, sizeof(data.data));
      Append(slot, data);
    }
    if (inv)
      Append(slot, wire::Ieth{wire::Be<uint32_t>(s_.current.wqe.imm_or_key)});
    return true;
  }

  static wire::Opcode DataOpcode(bool write, bool first, bool last, bool imm,
                                 bool inv) {
    using enum wire::Opcode;
    if (write) {
      if (first && last) return imm ? kRcWriteOnlyImm : kRcWriteOnly;
      if (first) return kRcWriteFirst;
      if (last) return imm ? kRcWriteLastImm : kRcWriteLast;
      return kRcWriteMiddle;
    }
    if (first && last) {
      return inv ? kRcSendOnlyInvalidate : imm ? kRcSendOnlyImm : kRcSendOnly;
    }
    if (first) return kRcSendFirst;
    if (!last) return kRcSendMiddle;
    return inv ? kRcSendLastInvalidate : imm ? kRcSendLastImm : kRcSendLast;
  }

  SendState& s_;
};

}  // namespace urnic::rc
