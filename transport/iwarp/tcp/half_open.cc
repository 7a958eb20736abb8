#include "transport/iwarp/tcp/half_open.h"

#include <algorithm>

namespace urnic::tcp {
namespace {

using wire::TcpFields;
using wire::TcpSegment;

ConnectionConfig ConfigOf(const FourTuple& tuple, SeqNum iss, uint16_t mss,
                          uint32_t window_bytes) {
  ConnectionConfig config;
  config.local_port = tuple.local_port;
  config.remote_port = tuple.remote_port;
  config.iss = iss;
  config.offer.mss = mss;
  config.window_bytes = window_bytes;
  return config;
}

// The window of our SYN-ACK.
int32_t OfferedWindow(uint16_t mss, uint32_t window_bytes) {
  const ConnectionConfig config = ConfigOf({}, {}, mss, window_bytes);
  return static_cast<int32_t>(std::min<uint32_t>(config.window(), UINT16_MAX));
}

uint32_t TimestampOf(const TcpSegment& segment) {
  const auto& timestamps = segment.options.timestamps;
  return timestamps ? timestamps->value : 0;
}

}  // namespace

HalfOpenTable::HalfOpenTable(const NumberKey& key, uint32_t capacity,
                             ChallengeBudget* challenges)
    : hash_key_(key.For(0)),
      numbers_(key.For(1)),
      cookies_(key.For(2)),
      challenges_(challenges),
      records_(capacity),
      index_(capacity) {
  index_.Grow(capacity);
  timers_.Grow(capacity);
  for (uint32_t i = capacity; i-- > 0;) {
    records_[i].next_free = free_;
    free_ = i;
  }
}

uint32_t HalfOpenTable::Find(const FourTuple& tuple) const {
  return index_.Find(Hash(tuple), [&](uint32_t index) {
    return records_[index].tuple == tuple;
  });
}

TcpFields HalfOpenTable::OnSyn(const FourTuple& tuple, const TcpSegment& syn,
                               const Offer& offer, uint32_t window_bytes,
                               Time now, std::optional<SeqNum> after) {
  uint32_t index = Find(tuple);
  if (index != kNone) {
    if (records_[index].irs == syn.seq) return Answer(index, now);
    // It is unknown which of the two SYNs is forged or old. The second gets a
    // cookie, so that neither of them displaces the other.
    return AnswerByCookie(tuple, syn, offer, window_bytes, now);
  }
  //= RFC 4987 3.6: a listener sends SYN cookies once its backlog fills
  // The number of a cookie cannot be chosen to be `after` a certain one.
  if (size_ >= records_.size() / 2 && !(after && free_ != kNone)) {
    return AnswerByCookie(tuple, syn, offer, window_bytes, now);
  }
  index = free_;
  Record& record = records_[index];
  free_ = record.next_free;
  record = Record();
  record.tuple = tuple;
  record.agreed = offer.With(syn);
  record.iss =
      after ? numbers_.IsnAfter(tuple, *after, now) : numbers_.Isn(tuple, now);
  record.irs = syn.seq;
  record.ts_recent = TimestampOf(syn);
  record.window_bytes = window_bytes;
  record.mss = offer.mss;
  index_.Insert(Hash(tuple), index);
  ++size_;
  timers_.Set(index, now + kInterval);
  return Answer(index, now);
}

TcpFields HalfOpenTable::Answer(uint32_t index, Time now) {
  Record& record = records_[index];
  record.answered_once = record.sent_at == Time();
  record.sent_at = now;
  return SynAck(
      ConfigOf(record.tuple, record.iss, record.mss, record.window_bytes),
      record.agreed, record.irs + 1, record.ts_recent,
      numbers_.Timestamp(record.tuple, now));
}

TcpFields HalfOpenTable::AnswerByCookie(const FourTuple& tuple,
                                        const TcpSegment& syn,
                                        const Offer& offer,
                                        uint32_t window_bytes, Time now) {
  ++cookies_sent_;
  const SynCookies::Cookie cookie = cookies_.Make(
      tuple, syn.seq, offer.With(syn), numbers_.Timestamp(tuple, now), now);
  return SynAck(ConfigOf(tuple, cookie.isn, offer.mss, window_bytes),
                cookie.agreed, syn.seq + 1, TimestampOf(syn), cookie.timestamp);
}

HalfOpenTable::Outcome HalfOpenTable::OnSegment(const FourTuple& tuple,
                                                const TcpSegment& segment,
                                                Time now) {
  const bool is_reset = segment.Has(wire::kTcpRst);
  const bool acks = segment.Has(wire::kTcpAck);
  const uint32_t index = Find(tuple);
  if (index != kNone) {
    if (is_reset) return OnReset(index, segment.seq, now);
    if (acks && segment.ack == records_[index].iss + 1) {
      return Complete(index, segment, now);
    }
  }
  //= RFC 9293 3.10.7.2: a RST, and what has neither SYN nor ACK, is dropped
  if (is_reset || !acks) return {};
  const std::optional<Agreed> agreed = cookies_.Check(tuple, segment, now);
  if (!agreed) {
    // The segment has overtaken the one that completes the handshake. The peer
    // resends it.
    if (cookies_.MayFollow(tuple, segment, now)) return {};
    //= RFC 9293 3.10.7.2: in LISTEN, any acknowledgement is answered by a RST
    //= RFC 9293 3.10.7.4: in SYN-RECEIVED, a segment that acknowledges anything
    //= but the SYN-ACK is answered by a RST
    return {.answer = ResetFor(segment), .verdict = RxVerdict::kTcp};
  }
  ++cookies_returned_;
  Accepted accepted;
  accepted.handshake.agreed = *agreed;
  accepted.handshake.irs = SeqNum(segment.seq.value() - 1);
  accepted.handshake.ts_recent = TimestampOf(segment);
  accepted.handshake.window = segment.window;
  accepted.iss = SeqNum(segment.ack.value() - 1);
  accepted.timestamp_offset = numbers_.TimestampOffset(tuple);
  return {.accepted = accepted};
}

bool HalfOpenTable::InWindow(const Record& record, SeqNum seq) {
  const int32_t ahead = seq - (record.irs + 1);
  return ahead >= 0 && ahead < OfferedWindow(record.mss, record.window_bytes);
}

HalfOpenTable::Outcome HalfOpenTable::OnReset(uint32_t index, SeqNum seq,
                                              Time now) {
  Record& record = records_[index];
  //= RFC 9293 3.10.7.4: in SYN-RECEIVED after a passive open, a RST returns the
  //= connection to LISTEN
  if (seq == record.irs + 1) {
    Remove(index);
    return {};
  }
  if (!InWindow(record, seq)) return {};
  //= RFC 5961 3.2: also in SYN-RECEIVED, a RST elsewhere in the window is
  //= answered by a challenge ACK
  Outcome outcome = {.verdict = RxVerdict::kTcpChallenged};
  if (record.challenge_limit.Take(*challenges_, now)) {
    outcome.answer = Challenge(record, now);
  }
  return outcome;
}

TcpFields HalfOpenTable::Challenge(const Record& record, Time now) const {
  const ConnectionConfig config =
      ConfigOf(record.tuple, record.iss, record.mss, record.window_bytes);
  TcpFields fields;
  fields.src_port = config.local_port;
  fields.dst_port = config.remote_port;
  fields.seq = record.iss + 1;
  fields.ack = record.irs + 1;
  fields.flags = wire::kTcpAck;
  const int32_t window = OfferedWindow(record.mss, record.window_bytes);
  fields.window = static_cast<uint16_t>(
      window >> (record.agreed.window_shift ? config.window_shift() : 0));
  if (record.agreed.timestamps) {
    fields.options.timestamps = {numbers_.Timestamp(record.tuple, now),
                                 record.ts_recent};
  }
  return fields;
}

HalfOpenTable::Outcome HalfOpenTable::Complete(uint32_t index,
                                               const TcpSegment& segment,
                                               Time now) {
  const Record record = records_[index];
  if (!InWindow(record, segment.seq)) return {};
  Accepted accepted;
  accepted.handshake.agreed = record.agreed;
  accepted.handshake.irs = record.irs;
  accepted.handshake.ts_recent = record.ts_recent;
  accepted.handshake.window = segment.window;
  if (record.answered_once)
    accepted.handshake.round_trip = now - record.sent_at;
  accepted.iss = record.iss;
  accepted.timestamp_offset = numbers_.TimestampOffset(record.tuple);
  Remove(index);
  return {.accepted = accepted};
}

std::optional<HalfOpenTable::Repeat> HalfOpenTable::OnTimer(Time now) {
  while (timers_.next() <= now) {
    const uint32_t index = timers_.next_item();
    Record& record = records_[index];
    if (record.timeouts == kMaxTimeouts) {
      ++given_up_;
      Remove(index);
      continue;
    }
    ++record.timeouts;
    timers_.Set(index, now + kInterval * (int64_t{1} << record.timeouts));
    return Repeat{record.tuple, Answer(index, now)};
  }
  return std::nullopt;
}

void HalfOpenTable::Remove(uint32_t index) {
  Record& record = records_[index];
  index_.Remove(Hash(record.tuple), index);
  timers_.Clear(index);
  record.next_free = free_;
  free_ = index;
  --size_;
}

}  // namespace urnic::tcp
