#pragma once

// Random keys for numbers that a peer or a neighbour should not be able to
// guess: ports, packet sequence numbers, communication ids.

#include "transport/base/permutation.h"

namespace urnic::rdmacm {

// A key that no other process has.
NumberKey RandomKey();

}  // namespace urnic::rdmacm
