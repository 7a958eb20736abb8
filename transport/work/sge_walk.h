#pragma once

// Walks the gather or scatter list of a work request, entry by entry, checking
// each key at the moment it is used.

#include <algorithm>
#include <cstdint>

#include "transport/mem/mr_table.h"
#include "verbs/abi/rnic_abi.h"

namespace urnic {

// Remembers where the previous piece ended, so that the walk does not start at
// the first entry for each packet of a long message.
struct SgeCursor {
  uint32_t sge = 0;
  uint64_t sge_start = 0;  // message offset at which that entry begins
};

enum class WalkResult : uint8_t { kOk, kTooShort, kFault };

// Calls emit(host_address, bytes) for each piece of [offset, offset + bytes) of
// a message whose list has `num_sge` entries, at most num_sge times;
// read_sge(i) returns a copy of entry i. kTooShort: the list ends too early;
// kFault: a key, range or right is wrong. After a failure, ignore the pieces
// that were emitted before.
template <typename ReadSge, typename Emit>
WalkResult WalkSges(uint32_t num_sge, ReadSge&& read_sge, SgeCursor& cursor,
                    uint64_t offset, uint32_t bytes, const mem::MrTable& mrs,
                    uint32_t pd, uint32_t rights, Emit&& emit) {
  if (offset < cursor.sge_start) cursor = SgeCursor{};
  while (bytes > 0) {
    if (cursor.sge >= num_sge) return WalkResult::kTooShort;
    const urnic_sge sge = read_sge(cursor.sge);
    const uint64_t skip = offset - cursor.sge_start;
    if (skip >= sge.length) {
      cursor.sge_start += sge.length;
      ++cursor.sge;
      continue;
    }
    const uint32_t piece =
        static_cast<uint32_t>(std::min<uint64_t>(bytes, sge.length - skip));
    const mem::Translation at =
        mrs.CheckLocal(MrKey{sge.lkey}, pd, sge.addr + skip, piece, rights);
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

}  // namespace urnic
