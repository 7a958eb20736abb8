#pragma once

// The memory that payload comes from and goes to, by address: the program's,
// which may not be there. Cores check keys and ranges; here is found out
// whether there is memory behind them. Whoever reaches payload does it through
// one of these, and needs not know whose memory it is or how it is reached.
//
// Thread: the holder of the engine's token; Enter() when that is another one
// than before, or has run the program's code meanwhile.

#include <cstddef>
#include <cstdint>

#include "datapath/memory/guarded_memory.h"
#include "transport/work/types.h"

namespace urnic {

class AddressSpace {
 public:
  // The thread at hand may fault in another way than the last one.
  void Enter() { known_ = false; }

  // All of these: false if some byte is not there (an unknown part of the
  // target may have been written). See datapath/memory/guarded_memory.h.
  bool Copy(void* target, const void* source, size_t bytes) {
    return GuardedCopy(mode(), target, source, bytes);
  }
  bool CopyHashed(void* target, const void* source, size_t bytes,
                  uint32_t* state) {
    return GuardedCopyHashed(mode(), target, source, bytes, state);
  }
  // The memory effect that a core has decided on.
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
    }
    return false;
  }

 private:
  // Asked when there is something to copy, once per entry.
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
