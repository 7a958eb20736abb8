#pragma once

// Tables of translation control entries (TCEs). Each entry is for a page of
// registered memory. A peer refers to a byte of registered memory by its
// protocol virtual offset (PVO), and the tables translate it to an address.
// PVOs are for all peers of a job, and for all NICs of the process.
// docs/design/0014-rud.md says where we differ from document C.
//
// Threads: any thread may call Check() at any time; the others one at a time.
// After Deregister() and Disown(), a Check() that has already begun may still
// allow an access, and accesses that were allowed may still run. task_views.h
// tells when they have ended: then the memory may be used for something else,
// and Reclaim() makes the entries free.

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "transport/base/random.h"

namespace urnic::rud {

//   | key 17 | table 5 | byte offset in the table 42 |
// A program can add a number of bytes to a PVO.
struct Pvo {
  static constexpr uint32_t kOffsetBits = 42;
  static constexpr uint32_t kTableBits = 5;
  static constexpr uint32_t kKeyBits = 17;

  uint64_t value = 0;

  uint32_t key() const {
    return static_cast<uint32_t>(value >> (kOffsetBits + kTableBits));
  }
  uint32_t table() const {
    return static_cast<uint32_t>(value >> kOffsetBits) &
           ((1u << kTableBits) - 1);
  }
  uint64_t offset() const { return value & ((uint64_t{1} << kOffsetBits) - 1); }
  static Pvo Make(uint32_t key, uint32_t table, uint64_t offset) {
    return {uint64_t{key} << (kOffsetBits + kTableBits) |
            uint64_t{table} << kOffsetBits | offset};
  }
  friend bool operator==(Pvo, Pvo) = default;
};

// One page of a registration. `key` 0: the entry is free.
struct alignas(32) Tce {
  std::atomic<uint32_t> key{0};
  uint32_t access = 0;
  uint64_t page = 0;   // its address
  uint64_t begin = 0;  // the registration's first byte
  uint64_t end = 0;    // behind its last byte
};
static_assert(sizeof(Tce) == 32);

// Why an access was refused. The caller treats each of them differently.
enum class PvoFault : uint8_t {
  kNone,
  kOwner,   // the table does not belong to the job
  kKey,     // deregistered, or never valid
  kBounds,  // not within the registration
  kRights,
};

struct PvoTranslation {
  PvoFault fault = PvoFault::kNone;
  uint64_t address = 0;  // only valid without a fault
};

// All pages of a registration have the same size.
enum class PageSize : uint8_t { k4K, k64K, k2M, k1G };
inline constexpr uint32_t kPageSizes = 4;
constexpr uint32_t PageShift(PageSize size) {
  constexpr uint32_t kShifts[kPageSizes] = {12, 16, 21, 30};
  return kShifts[static_cast<uint8_t>(size)];
}

class TceTables {
 public:
  static constexpr uint32_t kTables = 1u << Pvo::kTableBits;

  // Each table gets 1/32 of the storage, which is zeroed and outlives the
  // tables. `seed`: random, so that keys from before a restart are invalid.
  TceTables(std::span<Tce> storage, uint64_t seed);
  TceTables(const TceTables&) = delete;
  TceTables& operator=(const TceTables&) = delete;

  // Returns the PVO of the first byte. `access`: as in mem::MrTable. From now
  // on the job owns the table. Nullopt: the job's tables of this page size have
  // no room, and no other table is free. REQUIRES: job != 0, length != 0, no
  // overflow.
  std::optional<Pvo> Register(uint32_t job, uint64_t address, uint64_t length,
                              uint32_t access, PageSize size);
  // False: this job has no registration that begins at this PVO.
  bool Deregister(uint32_t job, Pvo pvo);
  // Ends all registrations of the job. Its tables have no owner any more.
  void Disown(uint32_t job);
  // Makes all entries and tables free that were taken away before.
  void Reclaim();

  // Translates a PVO, if the job may access these bytes.
  PvoTranslation Check(uint32_t job, Pvo pvo, uint64_t bytes,
                       uint32_t access) const {
    const Table& table = tables_[pvo.table()];
    if (job == 0 || table.job.load(std::memory_order_acquire) != job)
      return {PvoFault::kOwner};
    const uint64_t offset = pvo.offset();
    const uint64_t index = offset >> table.shift;
    if (index >= entries_) return {PvoFault::kKey};
    const Tce& tce = table.tces[index];
    const uint32_t key = tce.key.load(std::memory_order_acquire);
    if (key == 0 || key != pvo.key()) return {PvoFault::kKey};
    const uint64_t address =
        tce.page + (offset & ((uint64_t{1} << table.shift) - 1));
    if (address < tce.begin || address > tce.end || bytes > tce.end - address)
      return {PvoFault::kBounds};
    if ((tce.access & access) != access) return {PvoFault::kRights};
    return {PvoFault::kNone, address};
  }
  // The same for an access by a packet or a command. An access of 0 bytes is
  // always allowed, as in RDMA on InfiniBand.
  PvoTranslation CheckAccess(uint32_t job, Pvo pvo, uint64_t bytes,
                             uint32_t access) const {
    return bytes == 0 ? PvoTranslation{PvoFault::kNone}
                      : Check(job, pvo, bytes, access);
  }

 private:
  struct Table {
    std::atomic<uint32_t> job{0};  // 0: no owner
    uint32_t shift = 0;
    uint32_t next_key = 0;
    Tce* tces = nullptr;
    std::map<uint64_t, uint64_t> used;  // ranges of entries: first, end
    std::vector<uint64_t> retired;      // first entries of ended ranges
  };

  std::optional<Pvo> RegisterIn(Table& table, uint64_t address, uint64_t length,
                                uint32_t access);
  // The first of `count` free entries in a row.
  std::optional<uint64_t> FindFree(const Table& table, uint64_t count) const;
  using UsedRange = std::map<uint64_t, uint64_t>::value_type;
  void Retire(Table& table, const UsedRange& range);

  const uint64_t entries_;  // per table
  Table tables_[kTables];
};

}  // namespace urnic::rud
