#pragma once

// A registrar that registers nothing, and judges how the cache uses it: each
// region is deregistered once, and knows when it was made.

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "verbs/regcache/range.h"
#include "verbs/regcache/registrar.h"

namespace urnic::regcache {

class FakeRegistrar {
 public:
  struct Region {
    Range range;
    uint32_t access;
    uint64_t made;  // a moment: when the call of the registrar began
    std::atomic<bool> live{true};
  };

  ~FakeRegistrar() { stop_ = true; }

  Registrar registrar() { return {this, &Reg, &Dereg}; }

  static const Region& RegionOf(const ibv_mr* mr) {
    return *reinterpret_cast<const Region*>(mr);
  }

  // A moment later than all that were given before.
  uint64_t Now() { return ++moments_; }

  // May refuse, with an errno.
  std::function<int(Range)> on_reg;
  std::function<int()> on_dereg;

  std::atomic<uint64_t> regs{0};
  std::atomic<int64_t> live{0};
  std::atomic<int64_t> live_bytes{0};
  std::atomic<uint64_t> wrong_deregs{0};

 private:
  static ibv_mr* Reg(void* context, void* address, size_t bytes, int access) {
    auto& self = *static_cast<FakeRegistrar*>(context);
    const uint64_t made = self.Now();
    const Range range = RangeOf(address, bytes);
    if (self.on_reg) {
      if (const int error = self.on_reg(range)) {
        errno = error;
        return nullptr;
      }
    }
    ++self.regs;
    ++self.live;
    self.live_bytes += static_cast<int64_t>(bytes);
    auto* region =
        new Region{range, static_cast<uint32_t>(access), made, {true}};
    return reinterpret_cast<ibv_mr*>(region);
  }

  static int Dereg(void* context, ibv_mr* mr) {
    auto& self = *static_cast<FakeRegistrar*>(context);
    if (self.on_dereg) {
      if (const int error = self.on_dereg()) return error;
    }
    auto* region = reinterpret_cast<Region*>(mr);
    if (self.stop_ || !region->live.exchange(false)) {
      ++self.wrong_deregs;
      return 0;
    }
    --self.live;
    self.live_bytes -= static_cast<int64_t>(region->range.bytes());
    delete region;
    return 0;
  }

  std::atomic<uint64_t> moments_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace urnic::regcache
