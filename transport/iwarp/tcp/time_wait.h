#pragma once

// Connections that have ended, and whose late segments must not reach a new one
// (TIME-WAIT). Each is a record of 40 bytes. All stay for the same time, so
// they expire in the order in which they began, and one timer is enough.
//
// A record does not hold its addresses and ports, but a keyed hash of 64 bits
// of them. Two connections have the same hash with a probability of 2^-64, and
// an attacker without the key cannot search for such a pair.
//
// Nothing is allocated after construction. If the table is full, the oldest
// record makes room. Thread: the token's holder.

#include <cstdint>
#include <optional>
#include <vector>

#include "transport/base/hash_index.h"
#include "transport/base/permutation.h"
#include "transport/base/seq_num.h"
#include "transport/base/time.h"
#include "transport/iwarp/tcp/four_tuple.h"
#include "transport/wire/tcp.h"

namespace urnic::tcp {

class TimeWaitTable {
 public:
  // Twice the time that a segment may live. The standard says four minutes for
  // the Internet of its time; this is what Linux uses.
  static constexpr Duration kLifetime = Duration::Seconds(60);
  // With timestamps, we may connect again after this time. Then late segments
  // of the old connection have older timestamps than all segments of the new
  // one, on both sides, because the peer's clock has ticked.
  static constexpr Duration kBeforeReuse = Duration::Seconds(1);

  TimeWaitTable(const NumberKey& key, uint32_t capacity);
  TimeWaitTable(const TimeWaitTable&) = delete;
  TimeWaitTable& operator=(const TimeWaitTable&) = delete;

  // The state of an ended connection.
  struct Ended {
    SeqNum snd_nxt;  // behind our FIN
    SeqNum rcv_nxt;  // behind the peer's FIN
    uint32_t ts_recent = 0;
    bool timestamps = false;
    uint16_t window = 0;  // the field that we sent last
  };
  // Replaces an older record of the same connection.
  void Add(const FourTuple& tuple, const Ended& ended, Time now);
  // Asks whether we may connect with these addresses and ports again. False:
  // this is not safe yet, or not before the record expires. True: the record is
  // removed, and the new connection must begin after `after`, if that is set.
  [[nodiscard]] bool TakeForNewConnection(const FourTuple& tuple, Time now,
                                          std::optional<SeqNum>& after);

  enum class Reply : uint8_t {
    kNotFound,
    kDrop,
    kAck,  // with snd_nxt, rcv_nxt, window, and ts_recent to echo
    // The record is gone; treat the SYN as for a listener, with an ISN behind
    // snd_nxt (InitialNumbers::IsnAfter).
    kNewConnection,
  };
  struct Answer {
    Reply reply = Reply::kNotFound;
    Ended ended;
  };
  // A segment that belongs to no connection.
  Answer OnSegment(const FourTuple& tuple, const wire::TcpSegment& segment,
                   Time now);

  void OnTimer(Time now);
  Time NextDeadline() const {
    return oldest_ == kNone ? Time::Infinite() : records_[oldest_].expires;
  }
  uint32_t size() const { return size_; }
  // Records that had to make room since the last call.
  uint64_t TakeEvicted();

 private:
  static constexpr uint32_t kNone = HashIndex::kNone;

  struct Record {
    uint64_t id = 0;
    Time expires;
    SeqNum snd_nxt;
    SeqNum rcv_nxt;
    uint32_t ts_recent = 0;
    uint32_t older = kNone;  // in the order of expiry
    uint32_t newer = kNone;  // also: in the list of free records
    uint16_t window = 0;
    bool timestamps = false;
    bool answered = false;  // an empty segment
  };
  static_assert(sizeof(Record) <= 40);

  uint64_t IdOf(const FourTuple& tuple) const {
    return SipHash(key_, tuple.words());
  }
  uint32_t Find(uint64_t id) const;
  void Append(uint32_t index, Time now);
  void Unlink(uint32_t index);
  void Remove(uint32_t index);
  // Whether a segment begins within the window. Only the window field is known;
  // the real window may have been larger by the scaling factor.
  static bool InWindow(const Record& record, SeqNum seq);
  // Whether a SYN may begin a new connection.
  static bool MayReplace(const Record& record, const wire::TcpSegment& syn);

  const NumberKey key_;
  std::vector<Record> records_;
  HashIndex index_;
  uint32_t oldest_ = kNone;
  uint32_t newest_ = kNone;
  uint32_t free_ = kNone;
  uint32_t size_ = 0;
  uint64_t evicted_ = 0;
};

}  // namespace urnic::tcp
