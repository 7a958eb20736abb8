#pragma once

// The surroundings of a queue pair under test: memory that can be made
// unreadable or read-only, the key table, and a second, simpler book of the
// registered regions, by which the tests judge every access of the core.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transport/mem/mr_table.h"

namespace urnic::testing {

// A region that is registered now, in the test's own book.
struct BookedRegion {
  uint32_t key = 0;
  uint32_t pd = 0;
  uint32_t access = 0;
  uint64_t host = 0;
  uint64_t length = 0;
};

class FakeHost {
 public:
  // `max_mrs`: a power of two. `seed` determines the order of keys.
  explicit FakeHost(size_t memory_bytes, uint32_t max_mrs = 64,
                    uint64_t seed = 7);

  mem::MrTable& mrs() { return mrs_; }
  const mem::MrTable& mrs() const { return mrs_; }

  // The memory: `address(0)` is its first byte.
  uint64_t address(size_t offset) const {
    return reinterpret_cast<uint64_t>(memory_.get()) + offset;
  }
  std::span<uint8_t> bytes(size_t offset, size_t count) {
    return {memory_.get() + offset, count};
  }
  size_t size() const { return size_; }
  bool Contains(uint64_t address, uint64_t bytes) const;

  // Registers [offset, offset + length) under its own address, unless `iova`
  // says otherwise. Returns the key.
  uint32_t Register(uint32_t pd, size_t offset, uint64_t length,
                    uint32_t access);
  uint32_t RegisterAt(uint32_t pd, size_t offset, uint64_t length,
                      uint32_t access, uint64_t iova);
  void Deregister(uint32_t key);
  const std::vector<BookedRegion>& regions() const { return regions_; }

  // May a queue pair of `pd` touch these bytes with all of `rights`, by the
  // book? The judge of the core's key checks.
  bool Allowed(uint64_t address, uint64_t bytes, uint32_t pd,
               uint32_t rights) const;

  // Registered memory that is missing or read-only.
  enum class Damage : uint8_t { kReadOnly, kUnmapped };
  void Break(size_t offset, size_t length, Damage damage);
  void Restore() { broken_.clear(); }
  bool Readable(uint64_t address, uint64_t bytes) const;
  bool Writable(uint64_t address, uint64_t bytes) const;

 private:
  struct Broken {
    uint64_t begin;
    uint64_t end;
    Damage damage;
  };

  struct FreeAligned {
    void operator()(uint8_t* p) const;
  };

  size_t size_;
  std::unique_ptr<uint8_t[], FreeAligned> memory_;
  std::vector<mem::MemoryRegion> storage_;
  LocalLessor lessor_;
  mem::MrTable mrs_;
  std::vector<BookedRegion> regions_;
  std::vector<Broken> broken_;
};

}  // namespace urnic::testing
