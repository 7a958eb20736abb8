// The guarded copy, and whether `rep movsb` pays.

#include <cstring>
#include <memory>

#include "bench/loops.h"
#include "datapath/memory/guarded_memory.h"

namespace urnic {
// Variable here, so that both ways can be measured at each size.
extern "C" uint64_t urnic_guarded_rep_min;
}  // namespace urnic

namespace urnic::bench {
namespace {

constexpr uint32_t kBurst = 32;
// Not a power of two: 32 buffers would share two sets of the L1 cache.
constexpr size_t kStride = 8192 + 192;

// From 32 buffers to 32 others, as from frames to a program's memory:
// misaligned by the 42 + 28 bytes of headers on one side, within the L2 cache.
void Copy(benchmark::State& state, size_t bytes, uint64_t rep_min) {
  const auto from = std::make_unique<uint8_t[]>(kBurst * kStride);
  const auto to = std::make_unique<uint8_t[]>(kBurst * kStride);
  std::memset(from.get(), 1, kBurst * kStride);
  const uint64_t before = urnic_guarded_rep_min;
  if (rep_min != 0) urnic_guarded_rep_min = rep_min;
  Measure(state, kBurst, [&] {
    for (uint32_t i = 0; i < kBurst; ++i) {
      bool there = GuardedCopy(CopyMode::kGuarded, to.get() + i * kStride,
                               from.get() + i * kStride + 70, bytes);
      benchmark::DoNotOptimize(there);
    }
  });
  urnic_guarded_rep_min = before;
}

}  // namespace

void AddMemoryLoops(std::vector<Loop>& loops) {
  for (const size_t bytes : {8, 64, 256, 512, 1024, 2048, 4096}) {
    const std::string size = std::to_string(bytes);
    loops.push_back({"memory/copy/" + size, [bytes](benchmark::State& state) {
                       Copy(state, bytes, 0);
                     }});
    if (bytes < 256) continue;
    loops.push_back(
        {"memory/copy_loop/" + size,
         [bytes](benchmark::State& state) { Copy(state, bytes, UINT64_MAX); }});
    loops.push_back(
        {"memory/copy_rep/" + size,
         [bytes](benchmark::State& state) { Copy(state, bytes, 1); }});
  }
}

}  // namespace urnic::bench
