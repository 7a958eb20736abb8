#pragma once

// SYN cookies: under a flood of SYNs, a listener stores nothing about them. The
// data that it needs later are in the sequence number and in the timestamp of
// its SYN-ACK, and come back with the peer's acknowledgement.
//
//   sequence number | period, 4 bits | MSS, 4 bits | name, 8 | proof, 16 |
//   timestamp       | clock, without its lowest 7 bits | options, 7 bits |
//   options         | uRNIC | ECN | SACK | window shift, 4 bits; 15: none |
//
// Name and proof are keyed hashes of the connection's addresses and ports, the
// period, the MSS and the options; that of the proof also covers the peer's
// ISN. A forger needs 2^27 attempts on average. A cookie is accepted in the
// period of 64 s in which it was made and in the next one. Without timestamps,
// nothing but the MSS is remembered.
//
// Only the first segment after the handshake shows the peer's ISN. A later
// segment that overtakes it is recognized by the name.
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
    // What the SYN-ACK may confirm: everything that fits into the cookie.
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
  // Whether it may follow a segment with a cookie of ours, which has not
  // arrived. One of 2048 segments without any cookie is taken for one, too.
  bool MayFollow(const FourTuple& tuple, const wire::TcpSegment& ack,
                 Time now) const;

 private:
  // The contents of a cookie, besides the hashes.
  struct Content {
    uint64_t period = 0;
    uint32_t mss_index = 0;
    uint32_t options = 0;
  };
  uint32_t Encode(const FourTuple& tuple, SeqNum irs,
                  const Content& content) const;
  // Unset: there is no cookie, or an old one.
  std::optional<Content> ContentOf(const wire::TcpSegment& ack, Time now) const;

  NumberKey key_;
  // Nothing is accepted if no cookie was made recently: then there is nothing
  // to forge.
  uint64_t last_period_ = 0;
  bool made_ = false;
};

}  // namespace urnic::tcp
