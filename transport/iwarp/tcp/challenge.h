#pragma once

// Segments that an attacker may have forged without seeing the connection are
// answered by an acknowledgement ("challenge ACK"), which a true peer answers
// in a way that a forger cannot (Connection, Sender). This limits their number.

#include <cstdint>

#include "transport/base/fields.h"
#include "transport/base/permutation.h"
#include "transport/base/time.h"

namespace urnic::tcp {

// The limit for all connections together. The number allowed in a second is
// drawn at random for each second. If it were constant, an attacker could count
// how many of his own challenges are missing, and so learn about connections of
// others.
class ChallengeBudget {
 public:
  ChallengeBudget(const NumberKey& key, uint32_t per_second)
      : key_(key), per_second_(per_second) {}

  //= RFC 5961 7: the number of challenge ACKs in a period is limited
  bool Take(Time now) {
    const uint32_t left = LeftAt(now);
    SetLeft(now, left - (left != 0 ? 1 : 0));
    taken_ += left != 0 ? 1 : 0;
    return left != 0;
  }
  // How many more are allowed in the second of `now`.
  uint32_t LeftAt(Time now) const {
    const uint64_t second = SecondOf(now);
    if (second == second_ && started_) return left_;
    return per_second_ / 2 +
           static_cast<uint32_t>(SipHash(key_, second) % (per_second_ / 2 + 1));
  }
  // Also for replays, which do not have the key.
  void SetLeft(Time now, uint32_t left) {
    started_ = true;
    second_ = SecondOf(now);
    left_ = left;
  }
  uint64_t taken() const { return taken_; }

 private:
  static uint64_t SecondOf(Time now) {
    return static_cast<uint64_t>(now.ns() / 1'000'000'000);
  }

  NumberKey key_;
  uint32_t per_second_;
  uint64_t second_ = 0;
  bool started_ = false;
  uint32_t left_ = 0;
  uint64_t taken_ = 0;
};

// The limit for one connection.
class ChallengeLimit {
 public:
  static constexpr Duration kSpacing = Duration::Milliseconds(500);

  // True: send a challenge acknowledgement.
  bool Take(ChallengeBudget& budget, Time now) {
    if (now < next_ || !budget.Take(now)) return false;
    next_ = now + kSpacing;
    return true;
  }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  Time next_;
};

}  // namespace urnic::tcp
