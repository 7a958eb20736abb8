#pragma once

// What the fuzzers of the cores do to a queue pair's surroundings, as the next
// bytes of the input say.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "tests/fuzz/input.h"
#include "tests/support/fake_host.h"
#include "tests/support/fake_rings.h"
#include "verbs/abi/rnic_abi.h"

namespace urnic::testing {

// Around the path MTUs, and far beyond.
inline uint32_t PickLength(Input& in) {
  static constexpr uint32_t kLengths[] = {0,   1,   8,    255,  256,
                                          257, 512, 1000, 4096, 1u << 31};
  return kLengths[in.Below(std::size(kLengths))];
}

// Changes a byte of a packet under way, as if the ICRC had missed it.
inline void AlterOne(Input& in, std::vector<std::vector<uint8_t>>& wire) {
  if (wire.empty()) return;
  std::vector<uint8_t>& packet = wire[in.Byte() % wire.size()];
  packet[in.Byte() % std::min<size_t>(packet.size(), 44)] = in.Byte();
}

// What a hostile program does to its own rings.
inline void Scribble(Input& in, FakeRings& rings) {
  const uint8_t how = in.Byte();
  FakeRing& ring = (how & 1) != 0 ? rings.sq() : rings.rq();
  if ((how & 2) != 0) {
    ring.indices().producer += static_cast<int8_t>(in.Byte());
    return;
  }
  uint8_t* entry = ring.entry(in.Byte());
  const size_t limit = (how & 1) != 0 ? sizeof(urnic_sq_wqe) + 16 : 32;
  const size_t begin = in.Below(static_cast<uint32_t>(limit));
  for (size_t n = begin; n < std::min(limit, begin + 4); ++n) {
    entry[n] = in.Byte();
  }
}

// Makes 64 bytes of the program's memory disappear, or read-only.
inline void BreakMemory(Input& in, FakeHost& host) {
  host.Break(in.Below(64) * 64, 64,
             in.Below(2) == 0 ? FakeHost::Damage::kReadOnly
                              : FakeHost::Damage::kUnmapped);
}

}  // namespace urnic::testing
