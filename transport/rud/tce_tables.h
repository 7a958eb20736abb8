#pragma once

// Translation control entries (TCEs), and the addresses that they make: a
// protocol virtual offset (PVO) names a byte of registered memory to any peer
// of the job, on any NIC of the process. See document C, and
// docs/design/0014-rud.md for where we differ.
//
// Thread: Check() at any time, in any thread; the others one at a time. What
// Deregister() and Disown() take away is still in the hands of a Check() that
// is under way, and of the placements and payloads that one has allowed. When
// there are none any more (task_views.h), the memory may be used for something
// else, and Reclaim() lets others have the entries.

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "transport/base/random.h"

namespace urnic::rud {

//   | key 17 | table 5 | byte offset in the table 42 |
// so that a program can add bytes to a PVO.
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

// One page. `key` 0: the entry is free.
struct alignas(32) Tce {
  std::atomic<uint32_t> key{0};
  uint32_t access = 0;
  uint64_t page = 0;   // its address
  uint64_t begin = 0;  // of the registration, which has this byte ..
  uint64_t end = 0;    // .. and not this one
};
static_assert(sizeof(Tce) == 32);

// Why an access was refused. Each has its own consequence.
enum class PvoFault : uint8_t {
  kNone,
  kOwner,   // the table is not the job's
  kKey,     // stale, or a program's mistake
  kBounds,  // beyond the registration
  kRights,
};

struct PvoTranslation {
  PvoFault fault = PvoFault::kNone;
  uint64_t address = 0;  // valid only without a fault
};

// A registration's pages are of one size.
enum class PageSize : uint8_t { k4K, k64K, k2M, k1G };
inline constexpr uint32_t kPageSizes = 4;
constexpr uint32_t PageShift(PageSize size) {
  constexpr uint32_t kShifts[kPageSizes] = {12, 16, 21, 30};
  return kShifts[static_cast<uint8_t>(size)];
}

class TceTables {
 public:
  static constexpr uint32_t kTables = 1u << Pvo::kTableBits;

  // Each table has 1/32 of the storage, which is zeroed and outlives the
  // tables. `seed`: random, so that keys of another incarnation are not valid.
  TceTables(std::span<Tce> storage, uint64_t seed);
  TceTables(const TceTables&) = delete;
  TceTables& operator=(const TceTables&) = delete;

  // The PVO of the first byte. Rights: those of mem::MrTable. The job owns the
  // table from now on. Nullopt: no free table for this job and page size, or
  // no room in those that it has. REQUIRES: job != 0, length != 0, no overflow.
  std::optional<Pvo> Register(uint32_t job, uint64_t address, uint64_t length,
                              uint32_t access, PageSize size);
  // False: it is not the PVO of a registration of this job.
  bool Deregister(uint32_t job, Pvo pvo);
  // The tables of the job belong to no one, and its registrations end.
  void Disown(uint32_t job);
  // Entries and tables that were taken away before can be registered again.
  void Reclaim();

  // Whether the job may access these bytes.
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
  // The same for what a packet or a command accesses: as with RDMA on
  // InfiniBand, what accesses nothing names no memory.
  PvoTranslation CheckAccess(uint32_t job, Pvo pvo, uint64_t bytes,
                             uint32_t access) const {
    return bytes == 0 ? PvoTranslation{PvoFault::kNone}
                      : Check(job, pvo, bytes, access);
  }

 private:
  struct Table {
    std::atomic<uint32_t> job{0};  // 0: no one's
    uint32_t shift = 0;
    uint32_t next_key = 0;
    Tce* tces = nullptr;
    std::map<uint64_t, uint64_t> used;  // entries: from, to (exclusive)
    std::vector<uint64_t> retired;      // of them, where those begin that ended
  };

  std::optional<Pvo> RegisterIn(Table& table, uint64_t address, uint64_t length,
                                uint32_t access);
  // The first of so many free entries.
  std::optional<uint64_t> FindFree(const Table& table, uint64_t count) const;
  using UsedRange = std::map<uint64_t, uint64_t>::value_type;
  void Retire(Table& table, const UsedRange& range);

  const uint64_t entries_;  // of a table
  Table tables_[kTables];
};

}  // namespace urnic::rud
