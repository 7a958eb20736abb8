#include "transport/iwarp/tcp/half_open.h"

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

uint32_t TimestampOf(const TcpSegment& segment) {
  const auto& timestamps = segment.options.timestamps;
  return timestamps ? timestamps->value : 0;
}

}  // namespace

HalfOpenTable::HalfOpenTable(const NumberKey& key, uint32_t capacity)
    : hash_key_(key.For(0)),
      numbers_(key.For(1)),
      cookies_(key.For(2)),
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
    // Which of the two SYNs is forged or old is unknown. The second gets a
    // cookie, so that neither of them pushes the other out.
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

std::optional<HalfOpenTable::Accepted> HalfOpenTable::OnSegment(
    const FourTuple& tuple, const TcpSegment& segment, Time now, bool& reset) {
  reset = false;
  const uint32_t index = Find(tuple);
  if (index != kNone) {
    auto accepted = Complete(index, segment, now, reset);
    if (accepted || !reset) return accepted;
  }
  //= RFC 9293 3.10.7.2: a RST, and what has neither SYN nor ACK, is dropped
  if (segment.Has(wire::kTcpRst) || !segment.Has(wire::kTcpAck)) {
    reset = false;
    return std::nullopt;
  }
  const std::optional<Agreed> agreed = cookies_.Check(tuple, segment, now);
  //= RFC 9293 3.10.7.2: in LISTEN, any acknowledgement is answered by a RST
  reset = !agreed.has_value();
  if (reset) return std::nullopt;
  ++cookies_returned_;
  Accepted accepted;
  accepted.handshake.agreed = *agreed;
  accepted.handshake.irs = SeqNum(segment.seq.value() - 1);
  accepted.handshake.ts_recent = TimestampOf(segment);
  accepted.handshake.window = segment.window;
  accepted.iss = SeqNum(segment.ack.value() - 1);
  accepted.timestamp_offset = numbers_.TimestampOffset(tuple);
  return accepted;
}

std::optional<HalfOpenTable::Accepted> HalfOpenTable::Complete(
    uint32_t index, const TcpSegment& segment, Time now, bool& reset) {
  const Record record = records_[index];
  if (segment.Has(wire::kTcpRst)) {
    //= RFC 9293 3.10.7.4: in SYN-RECEIVED after a passive open, a RST returns
    //= the connection to LISTEN
    if (segment.seq == record.irs + 1) Remove(index);
    return std::nullopt;
  }
  //= RFC 9293 3.10.7.4: in SYN-RECEIVED, a segment that acknowledges anything
  //= but the SYN-ACK is answered by a RST
  if (!segment.Has(wire::kTcpAck) || segment.ack != record.iss + 1) {
    reset = true;
    return std::nullopt;
  }
  const int32_t ahead = segment.seq - (record.irs + 1);
  if (ahead < 0 || static_cast<uint32_t>(ahead) >= record.window_bytes) {
    return std::nullopt;
  }
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
  return accepted;
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
