#pragma once

// The incomplete handshakes of listeners. Any host may send SYNs, so the table
// has a fixed size. When it is half full, further SYNs are answered by SYN
// cookies, which need no record here.
//
// The caller knows which ports listen, and passes segments that belong to no
// connection. Nothing is allocated after construction. Thread: the token's
// holder.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "ras/metrics/rx_verdict.h"
#include "transport/base/deadline_heap.h"
#include "transport/base/hash_index.h"
#include "transport/base/permutation.h"
#include "transport/base/time.h"
#include "transport/iwarp/tcp/challenge.h"
#include "transport/iwarp/tcp/connection.h"
#include "transport/iwarp/tcp/four_tuple.h"
#include "transport/iwarp/tcp/isn.h"
#include "transport/iwarp/tcp/syn_cookie.h"
#include "transport/wire/tcp.h"

namespace urnic::tcp {

class HalfOpenTable {
 public:
  //= RFC 6298 2.1, 5.5: a SYN-ACK is sent again after 1 s, and each further
  //= time after twice as long
  static constexpr Duration kInterval = Duration::Seconds(1);
  static constexpr uint8_t kMaxTimeouts = 5;  // then it gives up

  // `key`: secret, drawn at random. `challenges` outlives the table.
  HalfOpenTable(const NumberKey& key, uint32_t capacity,
                ChallengeBudget* challenges);
  HalfOpenTable(const HalfOpenTable&) = delete;
  HalfOpenTable& operator=(const HalfOpenTable&) = delete;

  const InitialNumbers& numbers() const { return numbers_; }

  // Takes a SYN for a port that listens. Returns the SYN-ACK to send. `after`:
  // the new connection must begin with a greater number (TimeWaitTable).
  wire::TcpFields OnSyn(const FourTuple& tuple, const wire::TcpSegment& syn,
                        const Offer& offer, uint32_t window_bytes, Time now,
                        std::optional<SeqNum> after = {});

  struct Accepted {
    Handshake handshake;
    SeqNum iss;
    uint32_t timestamp_offset = 0;
  };
  struct Outcome {
    // A handshake is complete. Give the connection the segment next.
    std::optional<Accepted> accepted = {};
    std::optional<wire::TcpFields> answer = {};  // to send
    RxVerdict verdict = RxVerdict::kTcpHandshake;
  };
  // A segment, other than a SYN, for a port that listens.
  Outcome OnSegment(const FourTuple& tuple, const wire::TcpSegment& segment,
                    Time now);

  // The SYN-ACKs that must be resent: call this until it returns none.
  struct Repeat {
    FourTuple tuple;
    wire::TcpFields fields;
  };
  std::optional<Repeat> OnTimer(Time now);
  Time NextDeadline() const { return timers_.next(); }

  uint32_t size() const { return size_; }
  // Since the last call.
  uint64_t TakeCookiesSent() { return std::exchange(cookies_sent_, 0); }
  uint64_t TakeCookiesReturned() { return std::exchange(cookies_returned_, 0); }
  uint64_t TakeGivenUp() { return std::exchange(given_up_, 0); }

 private:
  static constexpr uint32_t kNone = HashIndex::kNone;

  struct Record {
    FourTuple tuple;
    Agreed agreed;
    SeqNum iss;
    SeqNum irs;
    uint32_t ts_recent = 0;
    uint32_t window_bytes = 0;
    uint16_t mss = 0;  // ours
    uint8_t timeouts = 0;
    bool answered_once = false;  // the round trip can be measured
    ChallengeLimit challenge_limit;
    Time sent_at;  // the last SYN-ACK
    uint32_t next_free = kNone;
  };

  uint64_t Hash(const FourTuple& tuple) const {
    return SipHash(hash_key_, tuple.words());
  }
  uint32_t Find(const FourTuple& tuple) const;
  wire::TcpFields Answer(uint32_t index, Time now);
  wire::TcpFields AnswerByCookie(const FourTuple& tuple,
                                 const wire::TcpSegment& syn,
                                 const Offer& offer, uint32_t window_bytes,
                                 Time now);
  // Whether the window of our SYN-ACK has room for a segment of this number.
  static bool InWindow(const Record& record, SeqNum seq);
  Outcome OnReset(uint32_t index, SeqNum seq, Time now);
  wire::TcpFields Challenge(const Record& record, Time now) const;
  // The segment acknowledges our SYN-ACK.
  Outcome Complete(uint32_t index, const wire::TcpSegment& segment, Time now);
  void Remove(uint32_t index);

  const NumberKey hash_key_;
  const InitialNumbers numbers_;
  SynCookies cookies_;
  ChallengeBudget* const challenges_;
  std::vector<Record> records_;
  HashIndex index_;
  DeadlineHeap timers_;
  uint32_t free_ = kNone;
  uint32_t size_ = 0;
  uint64_t cookies_sent_ = 0;
  uint64_t cookies_returned_ = 0;  // valid ones
  uint64_t given_up_ = 0;
};

}  // namespace urnic::tcp
