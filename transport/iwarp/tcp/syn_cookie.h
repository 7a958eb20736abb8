#pragma once

// SYN cookies: a listener under a flood of SYNs keeps nothing of them. What it
// must know later is in the sequence number and in the timestamp of its
// SYN-ACK, and comes back with the peer's acknowledgement.
//
//   sequence number | period, 5 bits | MSS, 3 bits | hash, 24 bits |
//   timestamp       | clock, without its lowest 7 bits | options, 7 bits |
//   options         | uRNIC | ECN | SACK | window shift, 4 bits; 15: none |
//
// The hash covers the connection's addresses and ports, the peer's ISN, the
// period, the MSS and the options. A forger needs 2^28 attempts on average. A
// cookie is accepted in the period of 64 s in which it was made and in the next
// one. Without timestamps, nothing but the MSS is remembered.
//
// The timestamp of a cookie is up to 128 ms old, so the round trip of its
// acknowledgement must not be measured with it.

#include <cstdint>
#include <optional>

#include "transport/base/permutation.h"
#include "transport/base/seq_num.h"
#include "transport/base/time.h"
#include "transport/iwarp/tcp/agreed.h"
#include "transport/iwarp/tcp/four_tuple.h"
#include "transport/wire/tcp.h"

namespace urnic::tcp {

class SynCookies {
 public:
  static constexpr Duration kPeriod = Duration::Seconds(64);

  explicit SynCookies(const NumberKey& key) : key_(key) {}

  struct Cookie {
    SeqNum isn;
    uint32_t timestamp = 0;
    // What the SYN-ACK may confirm: all that can be remembered.
    Agreed agreed;
  };
  // `wanted`: what the SYN offers and we agree to. `timestamp`: our clock for
  // this connection (InitialNumbers).
  Cookie Make(const FourTuple& tuple, SeqNum irs, const Agreed& wanted,
              uint32_t timestamp, Time now);

  // An acknowledgement that belongs to no connection. If it has a cookie of
  // ours, returns what was agreed.
  std::optional<Agreed> Check(const FourTuple& tuple,
                              const wire::TcpSegment& ack, Time now) const;

 private:
  // The hash with the period and the MSS above it: a sequence number.
  uint32_t Encode(const FourTuple& tuple, SeqNum irs, uint64_t period,
                  uint32_t mss_index, uint32_t options) const;

  NumberKey key_;
  // Nothing is accepted if no cookie was made recently: then there is nothing
  // to forge.
  uint64_t last_period_ = 0;
  bool made_ = false;
};

}  // namespace urnic::tcp
