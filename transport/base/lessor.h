#pragma once

// Who may use which numbers. Numbers that peers know things by are shared by
// all that are reached under one address: queue pairs, memory keys and
// connections of one process, or of several. Whoever gives out numbers leases
// ranges of them here first, and never uses another one. In a process that has
// its addresses to itself the lessor is local (LocalLessor) and leases all
// there is at once; where a switch process shares them out, it is the lessor.
//
// Off the packet path: ranges are leased when an owner begins, and when all of
// what it holds is used up.

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
  kCommId,  // connections (IBTA 12.7: communication ids)
  // Ports of rdma_cm's port spaces that programs leave to us.
  kTcpPort,
  kUdpPort,
  kIbPort,
};
inline constexpr size_t kNumberSpaces = 7;

struct NumberRange {
  uint32_t first = 0;
  uint64_t count = 0;  // 0: no range; up to 2^32

  bool Has(uint64_t number) const {
    return number >= first && number - first < count;
  }
  friend constexpr bool operator==(NumberRange, NumberRange) = default;
};

// Thread: any, many at once; neither waits for long nor calls back.
class Lessor {
 public:
  // A range that nobody else has until it is given back. Of all spaces but
  // those of ports, `count` is a power of two, 4 at least, and divides `first`.
  // No range: nothing is left now.
  virtual NumberRange Lease(NumberSpace space) = 0;
  // This one number, which a program wants by itself; false: somebody else has
  // it, or it is of a range that was leased to somebody else.
  virtual bool LeaseOne(NumberSpace space, uint32_t number) = 0;
  // What Lease() has given, or LeaseOne() (as a range of one).
  virtual void GiveBack(NumberSpace space, NumberRange range) = 0;

 protected:
  ~Lessor() = default;
};

// Of an owner that has the spaces to itself. Thread: one at a time.
class LocalLessor final : public Lessor {
 public:
  // One more range to lease, after those that are there.
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
