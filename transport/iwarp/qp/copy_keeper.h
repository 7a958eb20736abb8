#pragma once

// For tests: keeps FPDUs in allocated memory.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "transport/base/check.h"
#include "transport/iwarp/qp/kept_fpdus.h"

namespace urnic::iwarp {

class CopyKeeper final : public FpduKeeper {
 public:
  explicit CopyKeeper(uint32_t limit) { free_ = limit; }
  uint32_t Take(uint32_t bytes, std::span<uint8_t>& memory) override {
    URNIC_CHECK(free_-- != 0);
    std::vector<uint8_t>& kept = kept_[++last_];
    kept.resize(bytes);
    memory = kept;
    return last_;
  }
  void Release(uint32_t number) override {
    URNIC_CHECK(kept_.erase(number) == 1);
    ++free_;
  }
  void SetFree(uint32_t free) { free_ = free; }
  size_t kept() const { return kept_.size(); }

 private:
  std::map<uint32_t, std::vector<uint8_t>> kept_;
  uint32_t last_ = 0;
};

}  // namespace urnic::iwarp
