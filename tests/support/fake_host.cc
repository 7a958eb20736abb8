#include "tests/support/fake_host.h"

#include <cstdlib>
#include <cstring>

#include "transport/base/check.h"

namespace urnic::testing {
namespace {

constexpr size_t kPage = 4096;

uint8_t* AllocateZeroed(size_t bytes) {
  const size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  auto* memory = static_cast<uint8_t*>(std::aligned_alloc(kPage, rounded));
  URNIC_CHECK(memory != nullptr);
  std::memset(memory, 0, rounded);
  return memory;
}

}  // namespace

void FakeHost::FreeAligned::operator()(uint8_t* p) const { std::free(p); }

FakeHost::FakeHost(size_t memory_bytes, uint32_t max_mrs, uint64_t seed)
    : size_(memory_bytes),
      memory_(AllocateZeroed(memory_bytes)),
      storage_(2 * max_mrs),
      lessor_([] {
        LocalLessor lessor;
        OfferNumbersOf(1, lessor);
        return lessor;
      }()),
      mrs_(storage_, &lessor_, NumberKey{{seed, 0}}) {}

bool FakeHost::Contains(uint64_t address, uint64_t bytes) const {
  const uint64_t begin = this->address(0);
  return address >= begin && bytes <= size_ && address - begin <= size_ - bytes;
}

uint32_t FakeHost::Register(uint32_t pd, size_t offset, uint64_t length,
                            uint32_t access) {
  return RegisterAt(pd, offset, length, access, address(offset));
}

uint32_t FakeHost::RegisterAt(uint32_t pd, size_t offset, uint64_t length,
                              uint32_t access, uint64_t iova) {
  URNIC_CHECK(Contains(address(offset), length));
  const uint32_t key = mrs_.Register(pd, address(offset), iova, length, access);
  URNIC_CHECK(key != 0);
  regions_.push_back(BookedRegion{.key = key,
                                  .pd = pd,
                                  .access = access,
                                  .host = address(offset),
                                  .length = length});
  return key;
}

void FakeHost::Deregister(uint32_t key) {
  URNIC_CHECK(mrs_.Deregister(MrKey{key}));
  std::erase_if(regions_,
                [key](const BookedRegion& r) { return r.key == key; });
}

bool FakeHost::Allowed(uint64_t address, uint64_t bytes, uint32_t pd,
                       uint32_t rights) const {
  for (const BookedRegion& region : regions_) {
    if (region.pd == pd && (region.access & rights) == rights &&
        address >= region.host && bytes <= region.length &&
        address - region.host <= region.length - bytes) {
      return true;
    }
  }
  return false;
}

void FakeHost::Break(size_t offset, size_t length, Damage damage) {
  broken_.push_back(Broken{address(offset), address(offset) + length, damage});
}

bool FakeHost::Readable(uint64_t address, uint64_t bytes) const {
  for (const Broken& b : broken_) {
    if (b.damage == Damage::kUnmapped && address < b.end &&
        b.begin < address + bytes) {
      return false;
    }
  }
  return true;
}

bool FakeHost::Writable(uint64_t address, uint64_t bytes) const {
  for (const Broken& b : broken_) {
    if (address < b.end && b.begin < address + bytes) return false;
  }
  return true;
}

}  // namespace urnic::testing
