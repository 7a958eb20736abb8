#include "transport/mem/mr_table.h"

#include "transport/base/check.h"

namespace urnic::mem {

MrTable::MrTable(std::span<MemoryRegion> storage, Lessor* lessor,
                 const NumberKey& key)
    : storage_(storage),
      slots_(kFirstSlots, static_cast<uint32_t>(storage.size())),
      sequence_(lessor, NumberSpace::kKey, key) {
  URNIC_CHECK(storage.size() >= 2 && storage.size() <= kIndexCount);
}

MemoryRegion* MrTable::Take() {
  if (in_use_ == capacity()) return nullptr;
  while (slots_.count() < slots_.most() && slots_.count() < 2 * (in_use_ + 1)) {
    Grow();
  }
  uint64_t tries = 0;
  do {
    const auto draw = sequence_.Next();
    // Number 0 is not used: a window with it could be bound to key 0, which
    // means "free".
    if (!draw.has_value() || draw->number == 0) continue;
    const uint32_t key = KeyOf(draw->number, draw->variant);
    MemoryRegion& mr = storage_[SlotOf(key)];
    if (mr.key != 0) continue;
    mr = MemoryRegion{.key = key};
    ++in_use_;
    ++changes_;
    return &mr;
  } while (++tries <= sequence_.held());
  return nullptr;
}

// Entries may move: their users keep keys, not addresses.
void MrTable::Grow() {
  const GrowingSlots::Split split = slots_.Grow();
  MemoryRegion& from = storage_[split.from];
  if (from.key == 0 || SlotOf(from.key) != split.to) return;
  storage_[split.to] = from;
  from = MemoryRegion{};
}

uint32_t MrTable::Register(uint32_t pd, uint64_t host, uint64_t iova,
                           uint64_t length, uint32_t access) {
  MemoryRegion* mr = Take();
  if (mr == nullptr) return 0;
  Change(MrKey{mr->key}, pd, host, iova, length, access);
  return mr->key;
}

void MrTable::Change(MrKey key, uint32_t pd, uint64_t host, uint64_t iova,
                     uint64_t length, uint32_t access) {
  MemoryRegion& mr = storage_[SlotOf(key.value)];
  URNIC_CHECK(mr.key == key.value && mr.kind == MemKind::kRegion);
  URNIC_CHECK(pd < kMaxPdId);
  ++changes_;
  mr.pd = pd;
  mr.access = access;
  mr.iova = iova;
  mr.length = length;
  mr.host = host;
}

uint32_t MrTable::RegisterNull(uint32_t pd) {
  MemoryRegion* mr = Take();
  if (mr == nullptr) return 0;
  mr->pd = NullOwner(pd);
  mr->kind = MemKind::kNull;
  return mr->key;
}

bool MrTable::Deregister(MrKey key) {
  const MemoryRegion* mr = Find(key);
  if (mr == nullptr || mr->windows != 0) return false;
  Remove(key);
  return true;
}

bool MrTable::Restore(const MemoryRegion& entry) {
  const auto place = [&]() -> MemoryRegion& {
    return storage_[SlotOf(entry.key)];
  };
  const auto is_taken = [&] {
    const uint32_t there = place().key;
    return there != 0 && NumberOfKey(there) != NumberOfKey(entry.key);
  };
  while (is_taken()) {
    if (slots_.count() == slots_.most()) return false;
    Grow();
  }
  if (place().key == 0) ++in_use_;
  place() = entry;
  ++changes_;
  return true;
}

void MrTable::Remove(MrKey key) {
  if (Find(key) == nullptr) return;
  storage_[SlotOf(key.value)] = MemoryRegion{};
  --in_use_;
  ++changes_;
}

// --- Windows -----------------------------------------------------------------

uint32_t MrTable::AllocateWindow(uint32_t pd, bool type2) {
  MemoryRegion* window = Take();
  if (window == nullptr) return 0;
  window->domain = pd;
  window->invalidated = 1;
  window->kind = type2 ? MemKind::kWindow2 : MemKind::kWindow1;
  // Type 2: has no owner until a queue pair binds it.
  window->pd = type2 ? Window2Owner(0) : Window1Owner(pd);
  return window->key;
}

MemoryRegion* MrTable::FindWindow(uint32_t window) {
  MemoryRegion& found = storage_[SlotOf(window)];
  const bool is_window =
      found.kind == MemKind::kWindow1 || found.kind == MemKind::kWindow2;
  return is_window && ((found.key ^ window) & ~kVariantMask) == 0 ? &found
                                                                  : nullptr;
}

void MrTable::Unbind(MemoryRegion& window) {
  if (window.region == 0) return;
  --storage_[SlotOf(window.region)].windows;
  window.region = 0;
  window.invalidated = 1;
  ++changes_;
}

bool MrTable::FreeWindow(uint32_t window) {
  MemoryRegion* found = FindWindow(window);
  if (found == nullptr) return false;
  Unbind(*found);
  *found = MemoryRegion{};
  --in_use_;
  ++changes_;
  return true;
}

MemFault MrTable::Bind(const WindowBind& bind) {
  MemoryRegion* window = FindWindow(bind.window);
  if (window == nullptr || FindWindow(bind.new_key) != window) {
    return MemFault::kKey;
  }
  if (window->domain != bind.pd) return MemFault::kPd;
  const bool type2 = window->kind == MemKind::kWindow2;
  //= IBTA 10.6.7.2.2: a window of type 2 can be bound only if it is not bound
  //= already
  if (type2 && (window->region != 0 || bind.length == 0)) {
    return MemFault::kKey;
  }
  if (bind.length == 0) {
    Unbind(*window);
    window->key = bind.new_key;
    ++changes_;
    return MemFault::kNone;
  }
  const MemoryRegion* region = Find(MrKey{bind.region});
  if (region == nullptr || region->kind != MemKind::kRegion ||
      region->invalidated != 0) {
    return MemFault::kKey;
  }
  if (region->pd != bind.pd) return MemFault::kPd;
  //= IBTA 10.6.7.2.1: the region must allow the binding of windows, and local
  //= writes if the window allows remote writes or atomics
  const bool writes = (bind.access & (kRemoteWrite | kRemoteAtomic)) != 0;
  if ((region->access & kBindWindow) == 0 ||
      (writes && (region->access & kLocalWrite) == 0)) {
    return MemFault::kRights;
  }
  const uint64_t offset = bind.address - region->iova;
  if (bind.address < region->iova || offset > region->length ||
      bind.length > region->length - offset) {
    return MemFault::kRange;
  }
  Unbind(*window);
  window->key = bind.new_key;
  window->access =
      (bind.access & ~kRelaxedOrdering) | (region->access & kRelaxedOrdering);
  window->iova = (bind.access & kZeroBased) != 0 ? 0 : bind.address;
  window->length = bind.length;
  window->host = region->host + offset;
  window->region = region->key;
  window->invalidated = 0;
  if (type2) window->pd = Window2Owner(bind.qpn);
  ++storage_[SlotOf(region->key)].windows;
  ++changes_;
  return MemFault::kNone;
}

Translation MrTable::CheckWindow(MrKey key, uint32_t pd, uint32_t qpn,
                                 uint64_t address, uint64_t bytes,
                                 uint32_t rights) const {
  const MemoryRegion* window = Find(key);
  if (window->kind == MemKind::kWindow1) {
    return Check(key, Window1Owner(pd), address, bytes, rights);
  }
  if (window->kind == MemKind::kWindow2) {
    return Check(key, Window2Owner(qpn), address, bytes, rights);
  }
  return CheckNull(key, pd, address, bytes, rights);
}

Translation MrTable::CheckNull(MrKey key, uint32_t pd, uint64_t address,
                               uint64_t bytes, uint32_t rights) const {
  const MemoryRegion* null = Find(key);
  if (null->kind != MemKind::kNull || null->pd != NullOwner(pd)) {
    return {MemFault::kPd, 0};
  }
  if (bytes > UINT64_MAX - address) return {MemFault::kRange, 0};
  if ((rights & kRemoteAtomic) != 0) return {MemFault::kRights, 0};
  const bool writes = (rights & (kLocalWrite | kRemoteWrite)) != 0;
  return {MemFault::kNone, writes ? sink_ : zeros_};
}

MemFault MrTable::Invalidate(MrKey key, uint32_t pd, uint32_t qpn) {
  MemoryRegion& mr = storage_[SlotOf(key.value)];
  if (mr.key != key.value || key.value == 0 || mr.invalidated != 0) {
    return MemFault::kKey;
  }
  switch (mr.kind) {
    case MemKind::kWindow2:
      if (mr.pd != Window2Owner(qpn)) return MemFault::kPd;
      Unbind(mr);
      return MemFault::kNone;
    case MemKind::kRegion:
      if (mr.pd != pd) return MemFault::kPd;
      if ((mr.access & kRemoteInvalidate) == 0) return MemFault::kRights;
      mr.invalidated = 1;
      ++changes_;
      return MemFault::kNone;
    default:
      return MemFault::kRights;
  }
}

}  // namespace urnic::mem
