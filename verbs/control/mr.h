#pragma once

// A memory region: a range of the program's memory under a key. Registration
// pins nothing and touches nothing. If the memory disappears later, the queue
// pair that uses it fails (datapath/memory/guarded_memory.h).

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "transport/mem/mr_table.h"
#include "verbs/control/pd.h"

namespace urnic::control {

// Access rights as in enum ibv_access_flags; mem::kLocalWrite and the others
// of transport/mem are the first four.
enum AccessFlags : uint32_t {
  kAccessMwBind = 1u << 4,
  kAccessZeroBased = 1u << 5,
  kAccessOnDemand = 1u << 6,
  kAccessHugetlb = 1u << 7,
  kAccessFlushGlobal = 1u << 8,
  kAccessFlushPersistent = 1u << 9,
  kAccessOptionalFirst = 1u << 20,  // hints, such as relaxed ordering
  kAccessOptionalLast = 1u << 29,
};

// All defined rights. A program may also set any of them on a queue pair.
// There, only the remote rights have an effect; the others are stored.
inline constexpr uint32_t kKnownAccessFlags =
    mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead |
    mem::kRemoteAtomic | kAccessMwBind | kAccessZeroBased | kAccessOnDemand |
    kAccessHugetlb | kAccessFlushGlobal | kAccessFlushPersistent |
    ((kAccessOptionalLast << 1) - kAccessOptionalFirst);

// With kAccessOnDemand, `address` 0 and this length: the whole address space
// ("implicit" on-demand paging).
inline constexpr uint64_t kWholeAddressSpace = UINT64_MAX;

struct MrRequest {
  uint64_t address = 0;  // in this process
  uint64_t bytes = 0;
  uint64_t iova = 0;  // its first byte's address in requests and for peers
  uint32_t access = 0;
};

// Any thread. The domain must outlive it.
class Mr : public Tracked<Mr> {
 public:
  // INVALID_ARGUMENT: no bytes, more than kMaxMrBytes, a range that wraps,
  // unknown rights, or remote writing or atomics without local writing.
  // UNIMPLEMENTED: flushing to persistence. OUT_OF_RANGE: memory is not mapped,
  // or not with these rights; not checked with on-demand paging.
  // RESOURCE_EXHAUSTED: the device's limit.
  static absl::StatusOr<std::unique_ptr<Mr>> Register(Pd& pd,
                                                      const MrRequest& request);
  // A region that accepts any address, from local requests and from peers.
  // Written bytes are lost; bytes read are zero (transport/mem/mr_table.h).
  static absl::StatusOr<std::unique_ptr<Mr>> RegisterNull(Pd& pd);

  // Deregisters, unless Deregister() has done so. REQUIRES: no windows are
  // bound to it.
  ~Mr();
  Mr(const Mr&) = delete;
  Mr& operator=(const Mr&) = delete;

  // What Reregister() changes.
  enum Change : uint32_t { kTranslation = 1, kDomain = 2, kAccess = 4 };
  // Changes the region as if it were registered again, but keeps its key.
  // `what` says which of `pd` and the fields of `request` apply. On failure
  // nothing changes. Errors of Register(); FAILED_PRECONDITION: windows are
  // bound to it; INVALID_ARGUMENT: `pd` is on another device, or this is a null
  // region.
  absl::Status Reregister(uint32_t what, Pd& pd, const MrRequest& request);

  // Afterwards the memory is not accessed, not even through a window: a
  // concurrent bind either comes first, or finds no region. Call it once.
  // FAILED_PRECONDITION: windows are bound to the region, which stays
  // registered.
  absl::Status Deregister();

  // lkey and rkey are the same number.
  uint32_t key() const { return key_; }
  Pd& pd() const { return *pd_; }
  const MrRequest& request() const { return request_; }
  const Owner& owner() const { return owner_; }

 private:
  Mr(Pd& pd, uint32_t key, const MrRequest& request)
      : pd_(&pd), request_(request), key_(key), owner_(ThisProcess()) {
    pd.device().mrs().Enter(*this, serial_);
  }

  // Both change under the engine's token.
  Pd* pd_;
  MrRequest request_;  // of the last registration; 0 bytes: a null region
  const uint32_t key_;
  bool registered_ = true;
  const Owner owner_;
  uint64_t serial_ = 0;
};

}  // namespace urnic::control
