#pragma once

// Walks the scatter/gather list of a work request in the ring, entry by
// entry, checking each key at the moment it is used.

#include <algorithm>
#include <cstdint>

#include "transport/mem/mr_table.h"
#include "transport/rc/work_queue.h"

namespace urnic::rc {

// Remembers where the previous piece ended, so that a long message is not
// walked from its first entry for each packet.
struct SgeCursor {
  uint32_t sge = 0;
  uint64_t sge_start = 0;  // message offset at which that entry begins
};

enum class WalkResult : uint8_t { kOk, kTooShort, kFault };

// Calls emit(host_address, bytes) for each piece of [offset, offset + bytes)
// of the message in request `index`, at most num_sge times whatever another
// thread does to the ring meanwhile. kTooShort: the list ends before; kFault:
// a key, range or right is wrong. Pieces emitted before a failure are void.
template <typename Wqe, typename Emit>
WalkResult WalkSges(const WorkQueueView& queue, uint32_t index,
                    uint32_t num_sge, SgeCursor& cursor, uint64_t offset,
                    uint32_t bytes, const mem::MrTable& mrs, uint32_t pd,
                    uint32_t rights, Emit&& emit) {
  if (offset < cursor.sge_start) cursor = SgeCursor{};
  while (bytes > 0) {
    if (cursor.sge >= num_sge) return WalkResult::kTooShort;
    const urnic_sge sge = queue.ReadSge<Wqe>(index, cursor.sge);
    const uint64_t skip = offset - cursor.sge_start;
    if (skip >= sge.length) {
      cursor.sge_start += sge.length;
      ++cursor.sge;
      continue;
    }
    const uint32_t piece =
        static_cast<uint32_t>(std::min<uint64_t>(bytes, sge.length - skip));
    const mem::Translation at =
        mrs.Check(MrKey{sge.lkey}, pd, sge.addr + skip, piece, rights);
    if (!at.ok()) return WalkResult::kFault;
    emit(at.host, piece);
    offset += piece;
    bytes -= piece;
    if (skip + piece == sge.length) {
      cursor.sge_start += sge.length;
      ++cursor.sge;
    }
  }
  return WalkResult::kOk;
}

}  // namespace urnic::rc
