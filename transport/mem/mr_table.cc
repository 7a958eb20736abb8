#include "transport/mem/mr_table.h"

#include <bit>

#include "transport/base/check.h"

namespace urnic::mem {

namespace {
constexpr uint32_t kIndexMask = (1u << 21) - 1;
}

MrTable::MrTable(std::span<MemoryRegion> storage, uint32_t nic_ordinal,
                 uint32_t first_index, uint8_t first_variant)
    : storage_(storage),
      slot_mask_(static_cast<uint32_t>(storage.size()) - 1),
      ordinal_bits_(nic_ordinal << 29),
      next_index_(first_index & kIndexMask),
      next_variant_(first_variant) {
  URNIC_CHECK(std::has_single_bit(storage.size()));
  URNIC_CHECK(storage.size() <= kIndexMask + 1u);
  URNIC_CHECK(nic_ordinal < 8);
}

uint32_t MrTable::Register(uint32_t pd, uint64_t host, uint64_t iova,
                           uint64_t length, uint32_t access) {
  if (in_use_ == storage_.size()) return 0;
  // Indices are handed out round-robin, so that a key is reused as late as
  // possible.
  for (;;) {
    const uint32_t index = next_index_;
    next_index_ = (next_index_ + 1) & kIndexMask;
    MemoryRegion& mr = storage_[index & slot_mask_];
    if (mr.key != 0) continue;
    const uint32_t key = ordinal_bits_ | index << 8 | next_variant_++;
    if (key == 0) continue;  // 0 means "free"
    mr = MemoryRegion{.key = key,
                      .pd = pd,
                      .access = access,
                      .iova = iova,
                      .length = length,
                      .host = host};
    ++in_use_;
    return key;
  }
}

bool MrTable::Deregister(MrKey key) {
  if (Find(key) == nullptr) return false;
  storage_[SlotOf(key.value)] = MemoryRegion{};
  --in_use_;
  return true;
}

MemFault MrTable::InvalidateRemote(MrKey key, uint32_t pd) {
  MemoryRegion& mr = storage_[SlotOf(key.value)];
  if (mr.key != key.value || key.value == 0 || mr.invalidated != 0) {
    return MemFault::kKey;
  }
  if (mr.pd != pd) return MemFault::kPd;
  if ((mr.access & kRemoteInvalidate) == 0) return MemFault::kRights;
  mr.invalidated = 1;
  return MemFault::kNone;
}

}  // namespace urnic::mem
