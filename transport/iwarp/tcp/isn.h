#pragma once

// The initial numbers of a connection. They grow with time, and an observer of
// one connection cannot predict those of another.
//
// Pure: the caller gives the key, which is secret and drawn at random.

#include <cstdint>

#include "transport/base/permutation.h"
#include "transport/base/seq_num.h"
#include "transport/base/time.h"
#include "transport/iwarp/tcp/four_tuple.h"

namespace urnic::tcp {

class InitialNumbers {
 public:
  explicit InitialNumbers(const NumberKey& key)
      : isn_key_(key.For(0)), timestamp_key_(key.For(1)) {}

  //= RFC 6528 3, RFC 9293 3.4.1: ISN = M + F(local address, local port, remote
  //= address, remote port, secret key), where the timer M ticks every 4
  //= microseconds
  SeqNum Isn(const FourTuple& tuple, Time now) const {
    return SeqNum(static_cast<uint32_t>(now.ns() / 4000) +
                  static_cast<uint32_t>(SipHash(isn_key_, tuple.words())));
  }

  // The ISN of a new incarnation of a connection. It is also greater than all
  // numbers that the last incarnation has sent, up to `last_sent`.
  //= RFC 9293 3.6.1: a connection that replaces one in TIME-WAIT has an ISN
  //= that is greater than the last sequence number of the old one
  SeqNum IsnAfter(const FourTuple& tuple, SeqNum last_sent, Time now) const {
    const SeqNum isn = Isn(tuple, now);
    return isn - last_sent > 0 ? isn : last_sent + 1;
  }

  //= RFC 7323 5.4: a tick of the timestamp clock takes between 1 ms and 1 s;
  //= here, it takes 1 ms
  //= RFC 7323 7.1: each connection has its own random offset of the timestamp
  //= clock
  // The offset depends on addresses and ports, so the timestamps of a reused
  // connection keep growing.
  uint32_t Timestamp(const FourTuple& tuple, Time now) const {
    return TimestampOffset(tuple) + static_cast<uint32_t>(now.ns() / 1'000'000);
  }
  uint32_t TimestampOffset(const FourTuple& tuple) const {
    return static_cast<uint32_t>(SipHash(timestamp_key_, tuple.words()));
  }

 private:
  NumberKey isn_key_;
  NumberKey timestamp_key_;
};

}  // namespace urnic::tcp
