#pragma once

// The source and target of payload: the program's memory, which may have been
// unmapped. Cores check keys and ranges; this class detects whether the memory
// is mapped. All access to payload goes through an AddressSpace, so other code
// need not know which process owns the memory, or how to access it.
//
// Thread: the holder of the engine's token. Call Enter() when the holder is
// another thread than before, or has run the program's code meanwhile.

#include <cstddef>
#include <cstdint>

#include "datapath/memory/guarded_memory.h"
#include "transport/work/types.h"

namespace urnic {

class AddressSpace {
 public:
  // The current thread may handle faults differently from the last one.
  void Enter() { known_ = false; }

  // These return false if some byte is not mapped; then an unknown part of the
  // target may have been written. See datapath/memory/guarded_memory.h.
  bool Copy(void* target, const void* source, size_t bytes) {
    return GuardedCopy(mode(), target, source, bytes);
  }
  bool CopyHashed(void* target, const void* source, size_t bytes,
                  const wire::FoldingCrc& crc, uint32_t* state) {
    return GuardedCopyHashed(mode(), target, source, bytes, crc, state);
  }
  // Executes a placement that a core has returned.
  bool Execute(const Placement& placement) {
    switch (placement.kind) {
      case Placement::Kind::kCopy:
        return Copy(reinterpret_cast<void*>(placement.target), placement.source,
                    placement.bytes);
      case Placement::Kind::kCompareSwap:
        return GuardedCompareSwap(mode(), placement.target, placement.compare,
                                  placement.swap_or_add, placement.original);
      case Placement::Kind::kFetchAdd:
        return GuardedFetchAdd(mode(), placement.target, placement.swap_or_add,
                               placement.original);
      case Placement::Kind::kMasked:
        return ExecuteMasked(placement);
    }
    return false;
  }

 private:
  // Retries until no other access comes between its read and its write.
  bool ExecuteMasked(const Placement& placement) {
    uint64_t expected = 0;
    do {
      expected = *placement.original;
      if (!GuardedCompareSwap(
              mode(), placement.target, expected,
              MaskedAtomic::Of(placement.original).Apply(expected),
              placement.original)) {
        return false;
      }
    } while (*placement.original != expected);
    return true;
  }

  // Determined on the first copy after each Enter().
  CopyMode mode() {
    if (__builtin_expect(!known_, 0)) {
      mode_ = CopyModeOfThisThread();
      known_ = true;
    }
    return mode_;
  }

  CopyMode mode_ = CopyMode::kGuarded;
  bool known_ = false;
};

}  // namespace urnic
