#include "transport/wire/checksum.h"

namespace urnic::wire {
namespace {

// As many lanes as the widest registers hold; on CPUs with smaller ones the
// compiler uses several.
using Lanes = uint64_t __attribute__((vector_size(32)));

// The upper and the lower 32 bits of the lanes are summed by themselves, so
// there is no carry.
__attribute__((always_inline)) inline uint64_t Sum(const uint8_t* p,
                                                   size_t blocks) {
  static_assert(ChecksumSum::kBlockBytes == 2 * sizeof(Lanes));
  constexpr Lanes kLower = {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff};
  Lanes lower = {};
  Lanes upper = {};
  for (; blocks != 0; --blocks, p += ChecksumSum::kBlockBytes) {
    Lanes one;
    Lanes other;
    std::memcpy(&one, p, sizeof(one));
    std::memcpy(&other, p + sizeof(one), sizeof(other));
    lower += (one & kLower) + (other & kLower);
    upper += (one >> 32) + (other >> 32);
  }
  const Lanes sum = lower + upper;
  return sum[0] + sum[1] + sum[2] + sum[3];
}

__attribute__((target("avx2"))) uint64_t SumWithAvx2(const uint8_t* p,
                                                     size_t blocks) {
  return Sum(p, blocks);
}
uint64_t SumWithSse(const uint8_t* p, size_t blocks) { return Sum(p, blocks); }

}  // namespace

uint64_t ChecksumSum::SumOfBlocks(const uint8_t* p, size_t blocks) {
  static const auto sum = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") ? SumWithAvx2 : SumWithSse;
  }();
  return sum(p, blocks);
}

}  // namespace urnic::wire
