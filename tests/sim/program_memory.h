#pragma once

// The memory of a program on a simulated host, with its keys. It is mapped
// twice. In the RNIC's mapping, pages can be taken away or made read-only, as
// if a program unmapped what it has registered. The oracle's mapping always has
// all pages. The keys are those of two RNICs with the same numbers (machine.h).
// A second, simpler book of them judges every access.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/mem/mr_table.h"

namespace urnic::sim {

class ProgramMemory {
 public:
  static constexpr size_t kPage = 4096;

  // `bytes`: whole pages. The tables outlive it; they are changed under the
  // token of their engines, or while it is free.
  ProgramMemory(size_t bytes, mem::MrTable& one, mem::MrTable& other);
  ~ProgramMemory();
  ProgramMemory(const ProgramMemory&) = delete;
  ProgramMemory& operator=(const ProgramMemory&) = delete;

  size_t size() const { return size_; }
  // The oracle's side.
  std::span<uint8_t> bytes(size_t offset, size_t count) {
    return {ours_ + offset, count};
  }
  // The RNIC's side: `address(0)` is the first byte's.
  uint64_t address(size_t offset) const {
    return reinterpret_cast<uint64_t>(theirs_) + offset;
  }
  size_t OffsetOf(uint64_t address) const { return address - this->address(0); }
  bool Contains(uint64_t address, uint64_t bytes) const;

  // Registers [offset, offset + length) under its own address, unless `iova`
  // says otherwise. Returns the key.
  uint32_t Register(uint32_t pd, size_t offset, uint64_t length,
                    uint32_t access) {
    return RegisterAt(pd, offset, length, access, address(offset));
  }
  uint32_t RegisterAt(uint32_t pd, size_t offset, uint64_t length,
                      uint32_t access, uint64_t iova);
  void Deregister(uint32_t key);
  bool IsRegistered(uint32_t key) const;
  // Invalidates in the other table what this one has invalidated. Needed when a
  // queue pair moves.
  void CarryInvalidations(int from);

  // May a queue pair of `pd` touch these bytes with all of `rights`, by the
  // book?
  bool Allowed(uint64_t address, uint64_t bytes, uint32_t pd,
               uint32_t rights) const;

  // Whole pages that are registered, but missing or read-only.
  enum class Damage : uint8_t { kReadOnly, kUnmapped };
  void Break(size_t offset, size_t length, Damage damage);
  // Makes all pages present and writable again.
  void Restore();

 private:
  struct Region {
    uint32_t key;
    uint32_t pd;
    uint32_t access;
    uint64_t host;
    uint64_t length;
  };

  const size_t size_;
  uint8_t* ours_;
  uint8_t* theirs_;
  mem::MrTable* const tables_[2];
  std::vector<Region> book_;
};

}  // namespace urnic::sim
