#pragma once

// Memory for the FPDUs that an engine keeps until they are acknowledged
// (transport/iwarp/qp/kept_fpdus.h): places of one size. The place that was
// released last is used first, because it is likely to be in the cache.
//
// Thread: the token's holder. Allocates nothing after construction; memory that
// was never used is not resident.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/iwarp/qp/kept_fpdus.h"

namespace urnic {

class FpduSlab final : public iwarp::FpduKeeper {
 public:
  // `place_bytes`: the length of the longest FPDU.
  FpduSlab(uint32_t places, uint32_t place_bytes);
  // REQUIRES: all places are released.
  ~FpduSlab();
  FpduSlab(const FpduSlab&) = delete;
  FpduSlab& operator=(const FpduSlab&) = delete;

  uint32_t Take(uint32_t bytes, std::span<uint8_t>& memory) override;
  void Release(uint32_t number) override;

  uint32_t places() const { return static_cast<uint32_t>(stack_.size()); }

 private:
  size_t memory_bytes() const { return stack_.size() * place_bytes_; }

  const size_t place_bytes_;
  // The first free_ entries are the numbers of the free places.
  std::vector<uint32_t> stack_;
  uint8_t* memory_ = nullptr;
};

}  // namespace urnic
