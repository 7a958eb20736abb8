#pragma once

// An access of the peer to our memory that was refused, for people. Each
// transport with such requests keeps the last one.

#include <cstdint>

#include "transport/base/ids.h"
#include "transport/mem/mr_table.h"
#include "transport/work/request.h"

namespace urnic {

// The memory that a request of the peer names.
struct RemoteRange {
  uint64_t address = 0;
  uint32_t length = 0;
  MrKey key;
};

// Why the access was refused. This is determined when it is asked for, so the
// memory and the key may have changed since.
struct RefusedAccess {
  static constexpr uint8_t kNoRequest = UINT8_MAX;

  // Without a key: no key was refused. Without bytes: an invalidation, or a
  // flush of a whole region.
  RemoteRange range;
  uint8_t request = kNoRequest;  // enum urnic_wr_opcode
  bool by_queue_pair = false;    // it forbids the request for all memory
  mem::MemFault fault = mem::MemFault::kNone;  // otherwise
};

// The right of a queue pair that the request needs; 0: none.
constexpr uint32_t RightFor(uint8_t request) {
  const RequestKind* const kind = FindRequest(request);
  if (kind == nullptr) return 0;
  switch (kind->family) {
    case RequestFamily::kWrite:
    case RequestFamily::kAtomicWrite:
      return mem::kRemoteWrite;
    case RequestFamily::kRead:
      return mem::kRemoteRead;
    case RequestFamily::kAtomic:
      return mem::kRemoteAtomic;
    default:
      return 0;
  }
}

// Why queue pair `qpn` of `pd`, which allows `access`, refuses this range to
// that request.
inline RefusedAccess Examine(const RemoteRange& range, uint8_t request,
                             const mem::MrTable& mrs, uint32_t pd, uint32_t qpn,
                             uint32_t access) {
  RefusedAccess refused{.range = range, .request = request};
  if (range.key == MrKey{}) return refused;  // the memory, not the key
  const uint32_t needed = RightFor(request);
  refused.by_queue_pair = (access & needed) != needed;
  refused.fault = mrs.CheckRemote(range.key, pd, qpn, range.address,
                                  range.length, /*rights=*/0)
                      .fault;
  // An invalidation names no address, so only the right can be missing.
  const bool no_place =
      refused.fault == mem::MemFault::kRange && range.length == 0;
  if (refused.fault == mem::MemFault::kNone || no_place)
    refused.fault = mem::MemFault::kRights;
  return refused;
}

}  // namespace urnic
