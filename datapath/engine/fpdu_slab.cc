#include "datapath/engine/fpdu_slab.h"

#include <sys/mman.h>

#include "transport/base/check.h"

namespace urnic {

FpduSlab::FpduSlab(uint32_t places, uint32_t place_bytes)
    : place_bytes_((place_bytes + 63) & ~size_t{63}), stack_(places) {
  URNIC_CHECK(places != 0 && place_bytes != 0);
  void* at = mmap(nullptr, memory_bytes(), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  URNIC_CHECK(at != MAP_FAILED);
  memory_ = static_cast<uint8_t*>(at);
  for (uint32_t i = 0; i < places; ++i) stack_[i] = places - 1 - i;
  free_ = places;
}

FpduSlab::~FpduSlab() {
  URNIC_CHECK(free_ == places());
  munmap(memory_, memory_bytes());
}

uint32_t FpduSlab::Take(uint32_t bytes, std::span<uint8_t>& memory) {
  URNIC_CHECK(free_ != 0 && bytes <= place_bytes_);
  const uint32_t number = stack_[--free_];
  memory = {memory_ + number * place_bytes_, bytes};
  return number;
}

void FpduSlab::Release(uint32_t number) {
  URNIC_CHECK(number < places() && free_ < places());
  stack_[free_++] = number;
}

}  // namespace urnic
