#pragma once

// Memory for the kept FPDUs (transport/iwarp/qp/kept_fpdus.h) of an engine:
// places of one size, given out in any order. The place that was given back
// last is taken first, because it is likely to be in the cache.
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
  // `place_bytes`: of the longest FPDU.
  FpduSlab(uint32_t places, uint32_t place_bytes);
  // REQUIRES: all places are given back.
  ~FpduSlab();
  FpduSlab(const FpduSlab&) = delete;
  FpduSlab& operator=(const FpduSlab&) = delete;

  uint32_t Take(uint32_t bytes, std::span<uint8_t>& memory) override;
  void Release(uint32_t number) override;

  uint32_t places() const { return static_cast<uint32_t>(stack_.size()); }

 private:
  size_t memory_bytes() const { return stack_.size() * place_bytes_; }

  const size_t place_bytes_;
  // The first free_ numbers are those of free places.
  std::vector<uint32_t> stack_;
  uint8_t* memory_ = nullptr;
};

}  // namespace urnic
