#pragma once

// Executes the memory effects that the transport decided on. Keys and ranges
// have been checked; whether the memory is there has not.

#include <cstdint>

#include "datapath/memory/guarded_memory.h"
#include "transport/work/types.h"

namespace urnic {

// False if the memory is not there.
inline bool ExecutePlacement(CopyMode mode, const Placement& placement) {
  switch (placement.kind) {
    case Placement::Kind::kCopy:
      return GuardedCopy(mode, reinterpret_cast<void*>(placement.target),
                         placement.source, placement.bytes);
    case Placement::Kind::kCompareSwap:
      return GuardedCompareSwap(mode, placement.target, placement.compare,
                                placement.swap_or_add, placement.original);
    case Placement::Kind::kFetchAdd:
      return GuardedFetchAdd(mode, placement.target, placement.swap_or_add,
                             placement.original);
  }
  return false;
}

}  // namespace urnic
