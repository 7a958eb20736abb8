#include "transport/iwarp/tcp/time_wait.h"

#include <utility>

#include "transport/base/check.h"

namespace urnic::tcp {

TimeWaitTable::TimeWaitTable(const NumberKey& key, uint32_t capacity)
    : key_(key), records_(capacity), index_(capacity) {
  URNIC_CHECK(capacity > 0);
  index_.Grow(capacity);
  for (uint32_t i = capacity; i-- > 0;) {
    records_[i].newer = std::exchange(free_, i);
  }
}

uint32_t TimeWaitTable::Find(uint64_t id) const {
  return index_.Find(id, [&](uint32_t i) { return records_[i].id == id; });
}

void TimeWaitTable::Add(const FourTuple& tuple, const Ended& ended, Time now) {
  const uint64_t id = IdOf(tuple);
  const uint32_t same = Find(id);
  if (same != kNone) Remove(same);
  if (free_ == kNone) {
    Remove(oldest_);
    ++evicted_;
  }
  const uint32_t index = std::exchange(free_, records_[free_].newer);
  Record& record = records_[index];
  record.id = id;
  record.snd_nxt = ended.snd_nxt;
  record.rcv_nxt = ended.rcv_nxt;
  record.ts_recent = ended.ts_recent;
  record.timestamps = ended.timestamps;
  record.window = ended.window;
  record.answered = false;
  index_.Insert(id, index);
  Append(index, now);
  ++size_;
}

void TimeWaitTable::Append(uint32_t index, Time now) {
  Record& record = records_[index];
  record.expires = now + kLifetime;
  record.newer = kNone;
  record.older = newest_;
  (newest_ == kNone ? oldest_ : records_[newest_].newer) = index;
  newest_ = index;
}

void TimeWaitTable::Unlink(uint32_t index) {
  const Record& record = records_[index];
  (record.older == kNone ? oldest_ : records_[record.older].newer) =
      record.newer;
  (record.newer == kNone ? newest_ : records_[record.newer].older) =
      record.older;
}

void TimeWaitTable::Remove(uint32_t index) {
  Unlink(index);
  index_.Remove(records_[index].id, index);
  records_[index].newer = std::exchange(free_, index);
  --size_;
}

//= RFC 6191 2, RFC 9293 3.6.1: in TIME-WAIT, a SYN with a later timestamp, or
//= with a greater sequence number, begins a new connection
bool TimeWaitTable::MayReplace(const Record& record,
                               const wire::TcpSegment& syn) {
  const bool greater = syn.seq - record.rcv_nxt >= 0;
  if (!syn.options.timestamps.has_value()) return greater;
  if (!record.timestamps) return true;
  const auto later =
      static_cast<int32_t>(syn.options.timestamps->value - record.ts_recent);
  return later > 0 || (later == 0 && greater);
}

bool TimeWaitTable::InWindow(const Record& record, SeqNum seq) {
  const int32_t ahead = seq - record.rcv_nxt;
  return ahead == 0 || (ahead > 0 && ahead < int32_t{record.window});
}

TimeWaitTable::Answer TimeWaitTable::OnSegment(const FourTuple& tuple,
                                               const wire::TcpSegment& segment,
                                               Time now) {
  const uint32_t index = Find(IdOf(tuple));
  if (index == kNone) return {};
  Record& record = records_[index];
  Answer answer;
  answer.ended = {record.snd_nxt, record.rcv_nxt, record.ts_recent,
                  record.timestamps, record.window};
  answer.reply = Reply::kAck;
  if (segment.Has(wire::kTcpRst)) {
    //= RFC 1337 3: a RST does not end TIME-WAIT
    answer.reply = Reply::kDrop;
  } else if (segment.Has(wire::kTcpSyn) && !segment.Has(wire::kTcpAck)) {
    //= RFC 6191 2: in TIME-WAIT, a SYN that begins no new connection is dropped
    const bool may_replace = MayReplace(record, segment);
    answer.reply = may_replace ? Reply::kNewConnection : Reply::kDrop;
    if (may_replace) Remove(index);
  } else if (segment.seq_bytes() == 0 &&
             (segment.seq == record.rcv_nxt || record.answered)) {
    // An acceptable segment without content needs no answer. And an empty
    // segment may be the answer of another TIME-WAIT with other numbers: the
    // two must not answer each other forever.
    answer.reply = Reply::kDrop;
  } else if (!segment.Has(wire::kTcpAck) && InWindow(record, segment.seq)) {
    //= RFC 9293 3.10.7.4: an acceptable segment without the ACK flag is dropped
    answer.reply = Reply::kDrop;
  } else if (segment.Has(wire::kTcpFin) && segment.end() == record.rcv_nxt) {
    //= RFC 9293 3.10.7.4: in TIME-WAIT, a retransmitted FIN is acknowledged,
    //= and restarts the 2 MSL time-out
    Unlink(index);
    Append(index, now);
  } else if (segment.seq_bytes() == 0) {
    record.answered = true;
  }
  //= RFC 9293 3.10.7.4: in TIME-WAIT, any other segment is not acceptable, and
  //= is answered by an acknowledgement
  return answer;
}

//= RFC 7323 5.4: the timestamp clock of a peer ticks at least once a second
bool TimeWaitTable::TakeForNewConnection(const FourTuple& tuple, Time now,
                                         std::optional<SeqNum>& after) {
  const uint32_t index = Find(IdOf(tuple));
  if (index == kNone) return true;
  const Record& record = records_[index];
  const Duration age = kLifetime - (record.expires - now);
  if (!record.timestamps || age < kBeforeReuse) return false;
  after = record.snd_nxt;
  Remove(index);
  return true;
}

void TimeWaitTable::OnTimer(Time now) {
  while (NextDeadline() <= now) Remove(oldest_);
}

uint64_t TimeWaitTable::TakeEvicted() { return std::exchange(evicted_, 0); }

}  // namespace urnic::tcp
