#pragma once

// A request of a send queue during its transmission: its entry, copied once out
// of the ring, and the place in its list where the last packet ended. RC, UC
// and UD read and gather in the same way.

#include <cstdint>

#include "transport/mem/mr_table.h"
#include "transport/work/sge_walk.h"
#include "transport/work/types.h"
#include "transport/work/work_queue.h"

namespace urnic {

struct SendRequest {
  urnic_sq_wqe wqe = {};
  SgeCursor gathered;

  bool is_inline() const { return (wqe.flags & URNIC_SEND_INLINE) != 0; }

  // Loads request `index` of `sq`; gathering begins at its first byte. False:
  // it has more inline bytes or list entries than the queue pair allows.
  // `length` may still exceed URNIC_MAX_MESSAGE_BYTES.
  [[gnu::always_inline]] bool Load(const WorkQueueView& sq, uint32_t index,
                                   const QpLimits& limits, uint64_t& length) {
    wqe = sq.Read<urnic_sq_wqe>(index);
    gathered = SgeCursor{};
    if (is_inline()) {
      length = wqe.inline_bytes;
      return length <= limits.max_inline;
    }
    if (wqe.num_sge > limits.max_sge_send) return false;
    length = 0;
    for (uint32_t i = 0; i < wqe.num_sge; ++i) {
      length += sq.ReadSge<urnic_sq_wqe>(index, i).length;
    }
    return true;
  }

  // Whether all `length` bytes of its list are in memory with `rights`
  // (mem::k...). Inline data needs none.
  [[gnu::always_inline]] bool Check(const WorkQueueView& sq, uint32_t index,
                                    const mem::MrTable& mrs, uint32_t pd,
                                    uint32_t length, uint32_t rights) const {
    SgeCursor cursor;
    return is_inline() || Walk(sq, index, mrs, pd, cursor, 0, length, rights,
                               [](uint64_t, uint32_t) {});
  }

  // Names the memory of [offset, offset + bytes) in the slot's segments; its
  // keys are checked now. False: a key is wrong, or the list has become
  // shorter.
  [[gnu::always_inline]] bool Gather(const WorkQueueView& sq, uint32_t index,
                                     const mem::MrTable& mrs, uint32_t pd,
                                     uint64_t offset, uint32_t bytes,
                                     TxSlot& slot) {
    if (bytes == 0) return true;
    if (is_inline()) {
      slot.segments[0] = {sq.InlineAddress(index) + offset, bytes};
      slot.segment_count = 1;
      return true;
    }
    uint32_t count = 0;
    const bool ok =
        Walk(sq, index, mrs, pd, gathered, offset, bytes, mem::kLocalRead,
             [&](uint64_t address, uint32_t piece) {
               slot.segments[count++] = {address, piece};
             });
    slot.segment_count = static_cast<uint8_t>(count);
    return ok;
  }

  // For kLocalRequests: binds a memory window, or invalidates a key.
  //= IBTA 10.8.3.3: binds and local invalidates are executed in the order of
  //= posting
  mem::MemFault ExecuteLocal(mem::MrTable& mrs, const QpLimits& limits) const {
    if (wqe.opcode != URNIC_WR_BIND_MW) {
      return mrs.Invalidate(MrKey{wqe.imm_or_key}, limits.pd, limits.qpn);
    }
    return mrs.Bind({.window = wqe.bind.window,
                     .new_key = wqe.imm_or_key,
                     .region = wqe.bind.region,
                     .address = wqe.remote_addr,
                     .length = wqe.bind.length,
                     .access = static_cast<uint32_t>(wqe.bind.access),
                     .pd = limits.pd,
                     .qpn = limits.qpn});
  }
  // The completion status of a failed local request.
  uint8_t LocalFailure() const {
    return wqe.opcode == URNIC_WR_BIND_MW ? URNIC_WC_MW_BIND_ERR
                                          : URNIC_WC_LOC_QP_OP_ERR;
  }

 private:
  template <typename Emit>
  [[gnu::always_inline]] bool Walk(const WorkQueueView& sq, uint32_t index,
                                   const mem::MrTable& mrs, uint32_t pd,
                                   SgeCursor& cursor, uint64_t offset,
                                   uint32_t bytes, uint32_t rights,
                                   Emit&& emit) const {
    return WalkSges(
               wqe.num_sge,
               [&](uint32_t i) { return sq.ReadSge<urnic_sq_wqe>(index, i); },
               cursor, offset, bytes, mrs, pd, rights, emit) == WalkResult::kOk;
  }
};

}  // namespace urnic
