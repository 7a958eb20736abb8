#include "tests/sim/program_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tests/sim/world.h"
#include "transport/base/check.h"

namespace urnic::sim {

namespace {

uint8_t* Map(int fd, size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  URNIC_CHECK(at != MAP_FAILED);
  return static_cast<uint8_t*>(at);
}

}  // namespace

ProgramMemory::ProgramMemory(size_t bytes, mem::MrTable& one,
                             mem::MrTable& other)
    : size_(bytes), tables_{&one, &other} {
  URNIC_CHECK(bytes % kPage == 0);
  const int fd = memfd_create("program", MFD_CLOEXEC);
  URNIC_CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0);
  ours_ = Map(fd, bytes);
  theirs_ = Map(fd, bytes);
  close(fd);
}

ProgramMemory::~ProgramMemory() {
  munmap(ours_, size_);
  munmap(theirs_, size_);
}

bool ProgramMemory::Contains(uint64_t address, uint64_t bytes) const {
  const uint64_t begin = this->address(0);
  return address >= begin && bytes <= size_ && address - begin <= size_ - bytes;
}

uint32_t ProgramMemory::RegisterAt(uint32_t pd, size_t offset, uint64_t length,
                                   uint32_t access, uint64_t iova) {
  URNIC_CHECK(Contains(address(offset), length));
  const uint64_t host = address(offset);
  const uint32_t key = tables_[0]->Register(pd, host, iova, length, access);
  Require(key != 0, "no key is left");
  Require(tables_[1]->Register(pd, host, iova, length, access) == key,
          "two tables of one history give different keys");
  book_.push_back({key, pd, access, host, length});
  return key;
}

void ProgramMemory::Deregister(uint32_t key) {
  for (mem::MrTable* table : tables_) {
    Require(table->Deregister(MrKey{key}), "an unknown key");
  }
  std::erase_if(book_, [key](const Region& r) { return r.key == key; });
}

bool ProgramMemory::IsRegistered(uint32_t key) const {
  return tables_[0]->Find(MrKey{key}) != nullptr;
}

void ProgramMemory::CarryInvalidations(int from) {
  mem::MrTable& to = *tables_[1 - from];
  for (const Region& region : book_) {
    const MrKey key{region.key};
    if (tables_[from]->Find(key)->invalidated == 0 ||
        to.Find(key)->invalidated != 0) {
      continue;
    }
    Require(to.Invalidate(key, region.pd, 0) == mem::MemFault::kNone,
            "a key cannot be invalidated");
  }
}

bool ProgramMemory::Allowed(uint64_t address, uint64_t bytes, uint32_t pd,
                            uint32_t rights) const {
  for (const Region& region : book_) {
    if (region.pd == pd && (region.access & rights) == rights &&
        address >= region.host && bytes <= region.length &&
        address - region.host <= region.length - bytes) {
      return true;
    }
  }
  return false;
}

void ProgramMemory::Break(size_t offset, size_t length, Damage damage) {
  URNIC_CHECK(offset % kPage == 0 && length % kPage == 0 &&
              offset + length <= size_);
  URNIC_CHECK(mprotect(theirs_ + offset, length,
                       damage == Damage::kReadOnly ? PROT_READ : PROT_NONE) ==
              0);
}

void ProgramMemory::Restore() {
  URNIC_CHECK(mprotect(theirs_, size_, PROT_READ | PROT_WRITE) == 0);
}

}  // namespace urnic::sim
