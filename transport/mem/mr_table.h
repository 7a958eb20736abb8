#pragma once

// Memory keys: which bytes a key opens, for whom, and for what. The table
// checks and translates; it never touches the memory (datapath/memory does).

#include <cstdint>
#include <span>

#include "transport/base/ids.h"
#include "transport/base/leased_sequence.h"
#include "transport/base/numbers.h"

namespace urnic::mem {

// Rights, with the values of enum ibv_access_flags.
inline constexpr uint32_t kLocalWrite = 1;
inline constexpr uint32_t kRemoteWrite = 2;
inline constexpr uint32_t kRemoteRead = 4;
inline constexpr uint32_t kRemoteAtomic = 8;
inline constexpr uint32_t kBindWindow = 16;
inline constexpr uint32_t kZeroBased = 32;
inline constexpr uint32_t kFlushGlobal = 1u << 8;
// A queue pair may have it. No region has: no memory here is persistent.
inline constexpr uint32_t kFlushPersistent = 1u << 9;
// Of a region, and of the windows in it: what arrives may be written in any
// order. Programs that find the end of a Write by polling its last byte do not
// give this right, which is optional in verbs.
inline constexpr uint32_t kRelaxedOrdering = 1u << 20;
// Not a verbs flag: a remote Send with Invalidate may retire the key. Bound
// windows of type 2 can be retired without it.
//= IBTA 10.6.5: a peer can invalidate a fast-registered region, but not a plain
//= one (Linux rxe does the same)
inline constexpr uint32_t kRemoteInvalidate = 1u << 31;
// Local reading is a right that every region has.
inline constexpr uint32_t kLocalRead = 0;

// What an entry of the table is.
enum class MemKind : uint8_t { kRegion, kNull, kWindow1, kWindow2 };

// One registered region or window: a cache line. `key` 0 marks a free entry.
struct alignas(64) MemoryRegion {
  uint32_t key = 0;
  // The owner of the entry: the protection domain of a region, or for another
  // kind the number from MrTable::..Owner. The check of a region therefore does
  // not look at the kind.
  uint32_t pd = 0;
  uint32_t access = 0;
  uint32_t invalidated = 0;  // of windows: not bound
  uint64_t iova = 0;     // the address by which work requests and peers name it
  uint64_t length = 0;   // bytes
  uint64_t host = 0;     // where it lies in the owning process
  uint32_t domain = 0;   // windows: their protection domain
  uint32_t region = 0;   // bound windows: the key of their region
  uint32_t windows = 0;  // regions: how many windows are bound to them
  MemKind kind = MemKind::kRegion;
};
static_assert(sizeof(MemoryRegion) == 64);

// A protection domain's number is below this.
inline constexpr uint32_t kMaxPdId = 1u << 29;

// Why an access was refused. A refused remote access is answered with a NAK.
enum class MemFault : uint8_t { kNone, kKey, kPd, kRange, kRights };

struct Translation {
  MemFault fault = MemFault::kNone;
  uint64_t host = 0;  // valid only without a fault
  bool ok() const { return fault == MemFault::kNone; }
};

// The content of a work request to bind a window, and its poster.
struct WindowBind {
  uint32_t window = 0;   // any key that it has had: the low 8 bits are ignored
  uint32_t new_key = 0;  // may differ in only these eight bits
  uint32_t region = 0;   // its key
  uint64_t address = 0;
  uint64_t length = 0;
  uint32_t access = 0;
  uint32_t pd = 0;  // of the queue pair
  uint32_t qpn = 0;
};

// The keys of one RNIC. transport/base/numbers.h has their layout; they are
// drawn from leased ranges (transport/base/lessor.h). Storage is the caller's
// (zeroed, a power of two of entries, at most 2^21) and outlives the table. At
// most half of it is in use, and no more of it is touched than four times the
// most entries registered at a time. One thread at a time reads and writes (the
// engine's token).
class MrTable {
 public:
  // `key`: random per incarnation. The lessor outlives the table.
  MrTable(std::span<MemoryRegion> storage, Lessor* lessor,
          const NumberKey& key);

  // Returns the key; 0 if capacity() are registered, or no key is left and none
  // can be leased.
  uint32_t Register(uint32_t pd, uint64_t host, uint64_t iova, uint64_t length,
                    uint32_t access);

  // A region without memory (ibv_alloc_null_mr): at any address, writes are
  // discarded and reads return zeros. Peers may do both through its key. The
  // manual page promises no remote key, but mlx5 allows it, and perftest's
  // --use-null-mr gives the key to its peer. Atomics need memory and are
  // refused.
  uint32_t RegisterNull(uint32_t pd);
  // For null regions: a page of zeros for reads and a page for discarded
  // writes, each of kNullPageBytes. Accesses through a null region are no
  // longer than that.
  void SetNullPages(uint64_t zeros, uint64_t sink) {
    zeros_ = zeros;
    sink_ = sink;
  }
  static constexpr uint64_t kNullPageBytes = 4096;

  // False if there is no such key, or windows are bound to it.
  bool Deregister(MrKey key);

  // Changes a region and keeps its key. REQUIRES: there is such a region.
  void Change(MrKey key, uint32_t pd, uint64_t host, uint64_t iova,
              uint64_t length, uint32_t access);

  // --- Memory windows ------------------------------------------------------

  // A window without memory yet. Returns its key, or 0 as Register().
  // `type2`: a queue pair binds it for its peer alone, and invalidates it by
  // key. Otherwise it is bound for the whole domain, and each bind replaces the
  // last.
  uint32_t AllocateWindow(uint32_t pd, bool type2);
  // `window`: any key that it has had. False: there is none.
  bool FreeWindow(uint32_t window);
  // Type 1: replaces the previous bind; length 0 only removes it.
  MemFault Bind(const WindowBind& bind);

  // The region of a key, or nullptr. Invalidated regions are found too.
  const MemoryRegion* Find(MrKey key) const {
    const MemoryRegion& mr = storage_[SlotOf(key.value)];
    return mr.key == key.value && key.value != 0 ? &mr : nullptr;
  }

  // The same for any key that the entry has had.
  const MemoryRegion* FindAnyVariant(MrKey key) const {
    const MemoryRegion& mr = storage_[SlotOf(key.value)];
    return mr.key != 0 && NumberOfKey(mr.key) == NumberOfKey(key.value)
               ? &mr
               : nullptr;
  }

  // Whether `pd` may access [address, address + bytes) through `key` with all
  // of `rights`. Zero bytes pass with a valid key (callers that must not look
  // at the key of an empty operation do not call this).
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

  // The same for a peer of queue pair `qpn` of `pd`, also through windows and
  // null regions. A null region's translation is good for kNullPageBytes at a
  // time.
  Translation CheckRemote(MrKey key, uint32_t pd, uint32_t qpn,
                          uint64_t address, uint64_t bytes,
                          uint32_t rights) const {
    const Translation at = Check(key, pd, address, bytes, rights);
    if (__builtin_expect(at.fault != MemFault::kPd, 1)) return at;
    return CheckWindow(key, pd, qpn, address, bytes, rights);
  }
  // The same for a work request of `pd`, also through null regions.
  Translation CheckLocal(MrKey key, uint32_t pd, uint64_t address,
                         uint64_t bytes, uint32_t rights) const {
    const Translation at = Check(key, pd, address, bytes, rights);
    if (__builtin_expect(at.fault != MemFault::kPd, 1)) return at;
    return CheckNull(key, pd, address, bytes, rights);
  }

  // Retires a key, for a peer of the queue pair (Send with Invalidate) or for a
  // work request of its own: that of a bound window of type 2, or of a region
  // with kRemoteInvalidate.
  MemFault Invalidate(MrKey key, uint32_t pd, uint32_t qpn);

  // For replays: makes the entry as another table had it. False: there is no
  // room for its key.
  bool Restore(const MemoryRegion& entry);
  // ... and removes one. Its windows stay.
  void Remove(MrKey key);
  // Grows with each change of an entry.
  uint64_t changes() const { return changes_; }

  uint32_t capacity() const { return slots_.most() / 2; }
  uint32_t in_use() const { return in_use_; }

 private:
  uint32_t SlotOf(uint32_t key) const { return slots_.Of(NumberOfKey(key)); }

  // Values of MemoryRegion::pd that no domain and no other kind has.
  static uint32_t NullOwner(uint32_t pd) { return pd | 1u << 29; }
  static uint32_t Window1Owner(uint32_t pd) { return pd | 1u << 30; }
  static uint32_t Window2Owner(uint32_t qpn) { return qpn | 1u << 31; }

  [[gnu::cold, gnu::noinline]] Translation CheckWindow(MrKey key, uint32_t pd,
                                                       uint32_t qpn,
                                                       uint64_t address,
                                                       uint64_t bytes,
                                                       uint32_t rights) const;
  [[gnu::cold, gnu::noinline]] Translation CheckNull(MrKey key, uint32_t pd,
                                                     uint64_t address,
                                                     uint64_t bytes,
                                                     uint32_t rights) const;

  MemoryRegion* FindWindow(uint32_t window);
  void Unbind(MemoryRegion& window);
  // Takes a free entry and gives it a key; nullptr if there is none.
  MemoryRegion* Take();
  void Grow();

  static constexpr uint32_t kFirstSlots = 256;

  std::span<MemoryRegion> storage_;
  GrowingSlots slots_;
  LeasedSequence sequence_;
  uint32_t in_use_ = 0;
  uint64_t changes_ = 0;
  uint64_t zeros_ = 0;
  uint64_t sink_ = 0;
};

}  // namespace urnic::mem
