#include "transport/iwarp/tcp/scoreboard.h"

#include "transport/base/check.h"
#include "transport/base/mutation.h"

namespace urnic::tcp {

void Scoreboard::Start(SegmentSlab* slab, uint8_t max_order, SeqNum first) {
  ring_.Start(slab, max_order);
  in_flight_ = lost_ = List();
  pipe_ = sacked_bytes_ = 0;
  sacked_segments_ = 0;
  rack.Start(first);
}

void Scoreboard::PushBack(List& list, uint32_t number) {
  SegmentRecord& record = ring_.at(number);
  // The ends of a list link to themselves.
  record.next = record.prev = number & kLinkMask;
  if (list.count++ == 0) {
    list.head = list.tail = number;
    return;
  }
  record.prev = list.tail & kLinkMask;
  ring_.at(list.tail).next = number & kLinkMask;
  list.tail = number;
}

void Scoreboard::PushFront(List& list, uint32_t number) {
  if (list.count == 0) {
    PushBack(list, number);
    return;
  }
  ++list.count;
  SegmentRecord& record = ring_.at(number);
  record.prev = number & kLinkMask;
  record.next = list.head & kLinkMask;
  ring_.at(list.head).prev = number & kLinkMask;
  list.head = number;
}

void Scoreboard::Remove(List& list, uint32_t number) {
  const SegmentRecord& record = ring_.at(number);
  const uint32_t next = Full(record.next);
  const uint32_t prev = Full(record.prev);
  const bool is_head = number == list.head;
  const bool is_tail = number == list.tail;
  if (is_head) {
    list.head = next;
    ring_.at(next).prev = next & kLinkMask;
  } else {
    ring_.at(prev).next = (is_tail ? prev : next) & kLinkMask;
  }
  if (is_tail) {
    list.tail = prev;
  } else if (!is_head) {
    ring_.at(next).prev = prev & kLinkMask;
  }
  --list.count;
}

void Scoreboard::InsertByTime(uint32_t number) {
  const Time sent = ring_.at(number).sent;
  if (in_flight_.count == 0 || sent <= ring_.at(in_flight_.head).sent) {
    PushFront(in_flight_, number);
    return;
  }
  uint32_t before = in_flight_.head;
  while (before != in_flight_.tail &&
         ring_.at(Full(ring_.at(before).next)).sent < sent) {
    before = Full(ring_.at(before).next);
  }
  if (before == in_flight_.tail) {
    PushBack(in_flight_, number);
    return;
  }
  SegmentRecord& record = ring_.at(number);
  record.prev = before & kLinkMask;
  record.next = ring_.at(before).next;
  ring_.at(Full(record.next)).prev = number & kLinkMask;
  ring_.at(before).next = number & kLinkMask;
  ++in_flight_.count;
}

void Scoreboard::Append(const SegmentRecord& record) {
  const uint32_t number = ring_.end();
  ring_.Push() = record;
  ring_.at(number).state = SegmentRecord::kInFlight;
  PushBack(in_flight_, number);
  pipe_ += record.seq_bytes();
}

void Scoreboard::Leave(uint32_t number) {
  const SegmentRecord& record = ring_.at(number);
  switch (record.state) {
    case SegmentRecord::kInFlight:
      Remove(in_flight_, number);
      pipe_ -= record.seq_bytes();
      break;
    case SegmentRecord::kLost:
      Remove(lost_, number);
      break;
    default:
      sacked_bytes_ -= record.seq_bytes();
      --sacked_segments_;
  }
}

void Scoreboard::MarkLost(uint32_t number) {
  Leave(number);
  ring_.at(number).state = SegmentRecord::kLost;
  const bool lower =
      lost_.count != 0 && static_cast<int32_t>(number - lost_.head) < 0;
  if (lower) {
    PushFront(lost_, number);
  } else {
    PushBack(lost_, number);
  }
}

void Scoreboard::OnDelivered(const SegmentRecord& record, bool cumulative,
                             Delivery& delivery) {
  delivery.delivered_bytes += record.seq_bytes();
  ++delivery.segments;
  delivery.largest = std::max<uint32_t>(delivery.largest, record.bytes);
  rack.NoteOrder(record.end(), record.resent);
  const Duration rtt =
      std::max(delivery.now - record.sent, Duration::Nanoseconds(1));
  if (!record.resent) {
    //= RFC 6298 3: a segment that was resent gives no sample of the round trip
    //= (Karn)
    if (cumulative && delivery.oldest.ns() == 0) delivery.oldest = rtt;
    if (delivery.newest.ns() == 0 || rtt < delivery.newest) {
      delivery.newest = rtt;
    }
    if (record.end() - delivery.recover <= 0) delivery.original = true;
  } else {
    //= RFC 8985 6.2: an acknowledgement of a retransmitted segment is ignored
    //= if it echoes an earlier timestamp, or comes sooner than min_RTT: the
    //= original may have arrived
    const bool older = delivery.has_echo &&
                       static_cast<int32_t>(delivery.echo -
                                            delivery.clock.At(record.sent)) < 0;
    if (older || rtt < delivery.shortest) return;
  }
  if (!delivery.known ||
      Rack::SentAfter(record.sent, record.end(), delivery.sent, delivery.end)) {
    delivery.known = true;
    delivery.sent = record.sent;
    delivery.end = record.end();
    delivery.rtt = rtt;
  }
}

void Scoreboard::Trim(SeqNum ack, Delivery& delivery) {
  SegmentRecord& record = ring_.at(ring_.first());
  const auto bytes = static_cast<uint16_t>(ack - record.seq);
  delivery.acked_bytes += bytes;
  switch (record.state) {
    case SegmentRecord::kInFlight:
      pipe_ -= bytes;
      break;
    case SegmentRecord::kSacked:
      sacked_bytes_ -= bytes;
      break;
    default:
      break;
  }
  if (record.state != SegmentRecord::kSacked) {
    delivery.delivered_bytes += bytes;
  }
  record.seq = ack;
  MUTATION_SKIPS(iwarp_forgets_offset_of_acked_part)
  record.offset = static_cast<uint16_t>(record.offset + bytes);
  record.bytes = static_cast<uint16_t>(record.bytes - bytes);
}

uint32_t Scoreboard::SkipSacked(uint32_t number) {
  while (number != ring_.end() &&
         ring_.at(number).state == SegmentRecord::kSacked) {
    const uint32_t next = Full(ring_.at(number).next);
    if (next != ring_.end() && ring_.at(next).state == SegmentRecord::kSacked) {
      ring_.at(number).next = ring_.at(next).next;
    }
    number = next;
  }
  return number;
}

void Scoreboard::Sack(wire::SackBlock block, Delivery& delivery) {
  URNIC_CHECK(!ring_.empty());
  uint32_t number = ring_.Find(block.begin);
  if (ring_.at(number).seq - block.begin < 0) ++number;
  for (number = SkipSacked(number); number != ring_.end();
       number = SkipSacked(number)) {
    SegmentRecord& record = ring_.at(number);
    if (record.end() - block.end > 0) break;
    OnDelivered(record, /*cumulative=*/false, delivery);
    if (record.seq - delivery.recover >= 0) delivery.beyond = true;
    Leave(number);
    record.state = SegmentRecord::kSacked;
    record.next = (number + 1) & kLinkMask;
    delivery.sacked_bytes += record.seq_bytes();
    sacked_bytes_ += record.seq_bytes();
    ++sacked_segments_;
  }
}

Time Scoreboard::DetectLosses(Time now, Duration reorder_window, bool& found) {
  while (rack.known && in_flight_.count != 0) {
    const SegmentRecord& record = ring_.at(in_flight_.head);
    //= RFC 8985 6.2: only a segment that was sent before the most recently sent
    //= delivered segment may be lost
    if (!Rack::SentAfter(rack.sent, rack.end, record.sent, record.end())) break;
    const Time due = record.sent + rack.rtt + reorder_window;
    if (now < due) return due;
    MarkLost(in_flight_.head);
    found = true;
  }
  return Time::Infinite();
}

bool Scoreboard::MarkHeadLost() {
  if (empty() || head().state != SegmentRecord::kInFlight) return false;
  MarkLost(ring_.first());
  return true;
}

void Scoreboard::MarkLostAtTimeout(Time now, Duration reorder_window) {
  (void)MarkHeadLost();
  while (in_flight_.count != 0 &&
         ring_.at(in_flight_.head).sent + rack.rtt + reorder_window <= now) {
    MarkLost(in_flight_.head);
  }
}

void Scoreboard::ForgetSacks() {
  // The highest first: the lost list keeps the lowest in front.
  for (uint32_t left = ring_.size(); left != 0; --left) {
    const uint32_t number = ring_.first() + left - 1;
    if (ring_.at(number).state == SegmentRecord::kSacked) MarkLost(number);
  }
}

void Scoreboard::RestoreLost() {
  while (lost_.count != 0) {
    const uint32_t number = lost_.tail;
    Leave(number);
    SegmentRecord& record = ring_.at(number);
    record.state = SegmentRecord::kInFlight;
    pipe_ += record.seq_bytes();
    InsertByTime(number);
  }
}

void Scoreboard::MarkOversizedLost(uint32_t mss) {
  for (uint32_t left = ring_.size(); left != 0; --left) {
    const uint32_t number = ring_.first() + left - 1;
    const SegmentRecord& record = ring_.at(number);
    if (record.state == SegmentRecord::kInFlight && record.bytes > mss) {
      MarkLost(number);
    }
  }
}

void Scoreboard::OnResent(uint32_t number, Time now) {
  Leave(number);
  SegmentRecord& record = ring_.at(number);
  record.state = SegmentRecord::kInFlight;
  record.resent = 1;
  record.sent = now;
  pipe_ += record.seq_bytes();
  PushBack(in_flight_, number);
}

}  // namespace urnic::tcp
