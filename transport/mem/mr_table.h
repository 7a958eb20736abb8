#pragma once

// Memory keys: which bytes a key opens, for whom, and for what. The table
// checks and translates; it never touches the memory (datapath/placer does).

#include <cstdint>
#include <span>

#include "transport/base/ids.h"

namespace urnic::mem {

// Rights, with the values of enum ibv_access_flags.
inline constexpr uint32_t kLocalWrite = 1;
inline constexpr uint32_t kRemoteWrite = 2;
inline constexpr uint32_t kRemoteRead = 4;
inline constexpr uint32_t kRemoteAtomic = 8;
// Not a verbs flag: a remote Send with Invalidate may retire the key. Memory
// windows and fast-registered regions have it, plain regions do not (IBTA
// 10.6.5; Linux rxe does the same).
inline constexpr uint32_t kRemoteInvalidate = 1u << 31;
// Local reading is a right that every region has.
inline constexpr uint32_t kLocalRead = 0;

// One registered region: a cache line. `key` 0 marks a free entry.
struct alignas(64) MemoryRegion {
  uint32_t key = 0;
  uint32_t pd = 0;
  uint32_t access = 0;
  uint32_t invalidated = 0;
  uint64_t iova = 0;    // the address by which work requests and peers name it
  uint64_t length = 0;  // bytes
  uint64_t host = 0;    // where it lies in the owning process
};
static_assert(sizeof(MemoryRegion) == 64);

// Why an access was refused. Remote accesses answer a NAK for any of them.
enum class MemFault : uint8_t { kNone, kKey, kPd, kRange, kRights };

struct Translation {
  MemFault fault = MemFault::kNone;
  uint64_t host = 0;  // valid only without a fault
  bool ok() const { return fault == MemFault::kNone; }
};

// The keys of one RNIC. Storage is the caller's (zeroed, a power of two of
// entries, at most 2^21) and outlives the table. One writer at a time (the
// engine's token), which is also the only reader.
class MrTable {
 public:
  // `nic_ordinal` (0..7) goes into the upper three bits of each key, so that
  // keys are unique on a host. `first_index` and `first_variant` are drawn per
  // incarnation, so that a dead process's stale packets meet no live key.
  MrTable(std::span<MemoryRegion> storage, uint32_t nic_ordinal,
          uint32_t first_index, uint8_t first_variant);

  // Returns the key, or 0 when every entry is taken.
  uint32_t Register(uint32_t pd, uint64_t host, uint64_t iova, uint64_t length,
                    uint32_t access);

  // False when there is no such key.
  bool Deregister(MrKey key);

  // The region of a key, or nullptr. Invalidated regions are found too.
  const MemoryRegion* Find(MrKey key) const {
    const MemoryRegion& mr = storage_[SlotOf(key.value)];
    return mr.key == key.value && key.value != 0 ? &mr : nullptr;
  }

  // May `pd` access [address, address + bytes) through `key` with all of
  // `rights`? Zero bytes pass with a valid key (callers that must not look at
  // the key for empty operations do not ask).
  Translation Check(MrKey key, uint32_t pd, uint64_t address, uint64_t bytes,
                    uint32_t rights) const {
    const MemoryRegion& mr = storage_[SlotOf(key.value)];
    if (mr.key != key.value || key.value == 0 || mr.invalidated != 0) {
      return {MemFault::kKey, 0};
    }
    if (mr.pd != pd) return {MemFault::kPd, 0};
    const uint64_t offset = address - mr.iova;
    if (address < mr.iova || offset > mr.length || bytes > mr.length - offset) {
      return {MemFault::kRange, 0};
    }
    if ((mr.access & rights) != rights) return {MemFault::kRights, 0};
    return {MemFault::kNone, mr.host + offset};
  }

  // Retires a key on behalf of a peer (Send with Invalidate).
  MemFault InvalidateRemote(MrKey key, uint32_t pd);

  uint32_t capacity() const { return static_cast<uint32_t>(storage_.size()); }
  uint32_t in_use() const { return in_use_; }

 private:
  uint32_t SlotOf(uint32_t key) const { return (key >> 8) & slot_mask_; }

  std::span<MemoryRegion> storage_;
  uint32_t slot_mask_;
  uint32_t ordinal_bits_;
  uint32_t next_index_;  // 21 bits, free-running
  uint8_t next_variant_;
  uint32_t in_use_ = 0;
};

}  // namespace urnic::mem
