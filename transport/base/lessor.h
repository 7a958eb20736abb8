#pragma once

// Leases ranges of numbers to their users. Peers name queue pairs, memory keys
// and connections by numbers, and everything under one address shares these
// numbers, in one process or in several. Code that gives out numbers first
// leases a range here, and never uses a number outside of it. In a process that
// has its addresses to itself, the lessor is local (LocalLessor) and leases all
// numbers in one range. If a switch process distributes numbers, that process
// is the lessor.
//
// Off the packet path: an owner leases ranges when it starts, and when it has
// used up all its numbers.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace urnic {

enum class NumberSpace : uint8_t {
  kQpn,     // queue pairs (numbers.h)
  kSrqn,    // shared receive queues, as XRC requests name them
  kKey,     // memory keys without their variant (numbers.h)
  kCommId,  // communication ids of connections
  // Ports of rdma_cm's port spaces, if the program leaves the choice to us.
  kTcpPort,
  kUdpPort,
  kIbPort,
  kWindow,  // of RUD (numbers.h, as queue pairs)
};
inline constexpr size_t kNumberSpaces = 8;

struct NumberRange {
  uint32_t first = 0;
  uint64_t count = 0;  // 0: no range; up to 2^32

  bool Has(uint64_t number) const {
    return number >= first && number - first < count;
  }
  friend constexpr bool operator==(NumberRange, NumberRange) = default;
};

// Thread: any, also concurrently. Calls do not wait for long and do not call
// back.
class Lessor {
 public:
  // Leases a range; no other owner has it until it is given back. In all spaces
  // except those of ports, `count` is a power of two, at least 4, and divides
  // `first`. An empty range: nothing is left now.
  virtual NumberRange Lease(NumberSpace space) = 0;
  // Leases this one number, which a program has asked for. False: another owner
  // has it, or has a range that contains it.
  virtual bool LeaseOne(NumberSpace space, uint32_t number) = 0;
  // Gives back a range of Lease(), or a number of LeaseOne() (a range of one).
  virtual void GiveBack(NumberSpace space, NumberRange range) = 0;

 protected:
  ~Lessor() = default;
};

// For an owner that has the spaces to itself. Thread: one at a time.
class LocalLessor final : public Lessor {
 public:
  // Adds a range to lease, after the existing ones.
  void Offer(NumberSpace space, NumberRange range) {
    if (range.count != 0) Of(space).push_back(range);
  }

  NumberRange Lease(NumberSpace space) override {
    std::vector<NumberRange>& offers = Of(space);
    if (offers.empty()) return {};
    const NumberRange range = offers.front();
    offers.erase(offers.begin());
    return range;
  }
  bool LeaseOne(NumberSpace, uint32_t) override { return true; }
  void GiveBack(NumberSpace space, NumberRange range) override {
    if (range.count > 1) Of(space).push_back(range);
  }

 private:
  std::vector<NumberRange>& Of(NumberSpace space) {
    return offers_[static_cast<size_t>(space)];
  }
  std::array<std::vector<NumberRange>, kNumberSpaces> offers_;
};

}  // namespace urnic
