#pragma once

// Numbers in an order that only the owner of a key can predict. Queue pair
// numbers, memory keys, communication ids and packet sequence numbers are drawn
// in this way. An observer of any number of them cannot predict the next one,
// and so can neither forge a packet to it nor learn how many objects a program
// creates.
//
// Pure: the caller provides the random key. The same key gives the same order,
// as tests and simulations need.

#include <bit>
#include <cstdint>
#include <span>

#include "transport/base/check.h"

namespace urnic {

// 128 secret bits.
struct NumberKey {
  uint64_t word[2] = {0, 0};
  // Derives a key for another purpose; it reveals nothing about this key.
  constexpr NumberKey For(uint64_t purpose) const;
};

// SipHash-2-4 of whole words (Aumasson, Bernstein 2012): without the key, its
// values are as good as random, even for arguments that an attacker chooses.
constexpr uint64_t SipHash(const NumberKey& key,
                           std::span<const uint64_t> words) {
  uint64_t v0 = key.word[0] ^ 0x736f6d6570736575;
  uint64_t v1 = key.word[1] ^ 0x646f72616e646f6d;
  uint64_t v2 = key.word[0] ^ 0x6c7967656e657261;
  uint64_t v3 = key.word[1] ^ 0x7465646279746573;
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1;
      v1 = std::rotl(v1, 13) ^ v0;
      v0 = std::rotl(v0, 32);
      v2 += v3;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1;
      v1 = std::rotl(v1, 17) ^ v2;
      v2 = std::rotl(v2, 32);
    }
  };
  const auto take = [&](uint64_t word) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  };
  for (const uint64_t word : words) take(word);
  take(uint64_t{8 * words.size()} << 56);  // the length in bytes
  v2 ^= 0xff;
  rounds(4);
  return v0 ^ v1 ^ v2 ^ v3;
}
constexpr uint64_t SipHash(const NumberKey& key, uint64_t value) {
  return SipHash(key, std::span<const uint64_t>(&value, 1));
}

constexpr NumberKey NumberKey::For(uint64_t purpose) const {
  return {{SipHash(*this, purpose << 1), SipHash(*this, purpose << 1 | 1)}};
}

// The numbers below 2^bits in an order that the key determines: a Feistel
// network whose round function is SipHash. For an odd number of bits, results
// outside of the range are permuted again, twice on average (Black, Rogaway
// 2002). Eight rounds take about 0.3 us: for setup, not for each packet.
class Permutation {
 public:
  // `bits`: 2 to 32.
  constexpr Permutation(const NumberKey& key, uint32_t bits)
      : key_(key), bits_(bits), half_((bits + 1) / 2) {
    URNIC_CHECK(bits >= 2 && bits <= 32);
  }

  // REQUIRES for both: the argument is below 2^bits.
  constexpr uint32_t operator()(uint32_t index) const {
    uint64_t x = index;
    do {
      for (uint64_t round = 0; round < kRounds; ++round) {
        x = (x & mask()) << half_ | (x >> half_ ^ Mix(round, x & mask()));
      }
    } while (x >> bits_ != 0);
    return static_cast<uint32_t>(x);
  }
  constexpr uint32_t Inverse(uint32_t value) const {
    uint64_t x = value;
    do {
      for (uint64_t round = kRounds; round-- > 0;) {
        x = ((x & mask()) ^ Mix(round, x >> half_)) << half_ | x >> half_;
      }
    } while (x >> bits_ != 0);
    return static_cast<uint32_t>(x);
  }

 private:
  static constexpr uint64_t kRounds = 8;
  constexpr uint64_t mask() const { return (uint64_t{1} << half_) - 1; }
  constexpr uint64_t Mix(uint64_t round, uint64_t half) const {
    return SipHash(key_, round << 32 | half) & mask();
  }

  NumberKey key_;
  uint32_t bits_;
  uint32_t half_;
};

}  // namespace urnic
