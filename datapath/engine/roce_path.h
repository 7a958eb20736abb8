#pragma once

// The path of a queue pair's packets. It is built once and holds everything
// that a packet needs, so no packet needs a lookup.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "transport/base/mutation.h"
#include "transport/net/path.h"
#include "transport/wire/ipv4.h"

namespace urnic {

// The running ICRC over the headers before the BTH, for each packet length.
// Between two packets of a path only the length changes these headers.
class IcrcPrefixCache {
 public:
  // `length`: from the BTH to the ICRC, in bytes.
  template <typename Compute>
  uint32_t Get(uint16_t length, Compute&& compute) {
    // The lengths of RoCE packets are multiples of four: an acknowledgement
    // and a short send must not share an entry.
    const size_t at = (length >> 2) & (kEntries - 1);
    if (lengths_[at] != length) {
      states_[at] = compute();
      lengths_[at] = length;
    }
    return states_[at];
  }

 private:
  static constexpr size_t kEntries = 4;
  uint16_t lengths_[kEntries] = {};  // 0: unused; no packet has this length
  uint32_t states_[kEntries] = {};
};

// The IPv4 and UDP headers of a peer's latest packets, and the running ICRC
// over them. Nearly every packet has the headers of an earlier one, which need
// not be parsed or hashed again.
class PeerHeaderCache {
 public:
  // The running ICRC over these headers; null: no kept packet had them. The UDP
  // checksum, which the ICRC does not cover, is not compared. REQUIRES: the
  // addresses are those of the path, and the UDP length matches the IPv4
  // length.
  const uint32_t* Find(const uint8_t* headers) const {
    const Entry& entry = entries_[PlaceOf(headers)];
    return entry.begin == Word(headers, kBegin) &&
                   entry.sum == Word(headers, kSum) &&
                   fragment_ == Word(headers, kFragment) &&
                   ports_ == Word(headers, kPorts)
               ? &entry.state
               : nullptr;
  }
  // Keeps the running ICRC of these headers. REQUIRES: the same as for Find(),
  // and the headers are valid.
  void Keep(const uint8_t* headers, uint32_t state) {
    if (fragment_ != Word(headers, kFragment) ||
        ports_ != Word(headers, kPorts)) {
      *this = PeerHeaderCache();
    }
    fragment_ = Word(headers, kFragment);
    ports_ = Word(headers, kPorts);
    entries_[PlaceOf(headers)] = {.begin = Word(headers, kBegin),
                                  .sum = Word(headers, kSum),
                                  .state = state};
  }

 private:
  // The offsets of words of four bytes.
  static constexpr size_t kBegin = 0;     // version, TOS, length
  static constexpr size_t kFragment = 4;  // identification, flags, offset
  static constexpr size_t kSum = 8;       // TTL, protocol, checksum
  static constexpr size_t kPorts = sizeof(wire::Ipv4);

  // The part that depends on the packet's length. `begin` of an unused entry is
  // zero, which no header begins with.
  struct Entry {
    uint32_t begin = 0;
    uint32_t sum = 0;
    uint32_t state = 0;
  };

  static uint32_t Word(const uint8_t* headers, size_t at) {
    uint32_t word;
    std::memcpy(&word, headers + at, sizeof(word));
    return word;
  }
  // One entry is for acknowledgements, the other for a write or send whose
  // length is a power of two from eight bytes on. With immediate data, or as a
  // read's response, these share the acknowledgement's entry.
  static size_t PlaceOf(const uint8_t* headers) {
    return headers[offsetof(wire::Ipv4, total_length) + 1] >> 2 & 1;
  }

  uint32_t fragment_ = 0;
  uint32_t ports_ = 0;
  Entry entries_[2];
};

// A path, with the caches of RoCE's framer for packets along it.
struct RocePath : net::Path {
  RocePath() = default;
  explicit RocePath(net::Path path) : net::Path(std::move(path)) {}

  // The ICRC does not cover what changes when a neighbour moves, so the caches
  // stay valid.
  void FollowNeighbor() {
    MUTATION_SKIPS(engine_follows_nobody)
    if (__builtin_expect(!IsCurrent(), 0)) Restamp();
  }

  IcrcPrefixCache sent;
  PeerHeaderCache received;  // see RoceFramer::FindKnown()
};

}  // namespace urnic
