#include "transport/impair/impairer.h"

#include <algorithm>

namespace urnic::impair {

Impairer::Impairer(const Config& config, uint64_t seed, Time start)
    : start_(start), random_(seed), queue_empty_(start) {
  Reconfigure(config);
}

void Impairer::Reconfigure(const Config& config) {
  config_ = config;
  buffer_ = WireTime(config.buffer_bytes);
  red_min_ = WireTime(config.red.min_bytes);
  red_max_ = WireTime(config.red.max_bytes);
  // Another stall changes what unstalled time is.
  queue_end_ = Unstalled(queue_empty_);
  bad_ = false;
}

Duration Impairer::WireTime(uint64_t bytes) const {
  if (config_.bits_per_second == 0) return Duration();
  const auto bit_ns = static_cast<unsigned __int128>(bytes) * 8 * 1'000'000'000;
  return Duration::Nanoseconds(
      static_cast<int64_t>(bit_ns / config_.bits_per_second));
}

Duration Impairer::Below(Duration limit) {
  if (limit <= Duration()) return Duration();
  return Duration::Nanoseconds(
      static_cast<int64_t>(random_.Below(static_cast<uint64_t>(limit.ns()))));
}

Duration Impairer::Unstalled(Time now) const {
  const Duration age = now - start_;
  const Spell& stall = config_.stall;
  const Duration into = age - stall.after;
  if (stall.length == Duration() || into < Duration()) return age;
  if (stall.every == Duration()) return age - std::min(into, stall.length);
  const int64_t rounds = into.ns() / stall.every.ns();
  const Duration into_this = into - stall.every * rounds;
  return age - stall.length * rounds - std::min(into_this, stall.length);
}

Time Impairer::WhenUnstalled(Duration unstalled) const {
  const Spell& stall = config_.stall;
  const Time then = start_ + unstalled;
  const Duration into = unstalled - stall.after;
  if (stall.length == Duration() || into < Duration()) return then;
  if (stall.every == Duration()) return then + stall.length;
  const int64_t rounds = into.ns() / (stall.every - stall.length).ns();
  return then + stall.length * (rounds + 1);
}

bool Impairer::HitByRed(Duration queue) {
  if (config_.red.max_bytes == 0 || queue < red_min_) return false;
  if (queue >= red_max_) return true;
  const auto above = static_cast<unsigned __int128>((queue - red_min_).ns());
  const int64_t span = (red_max_ - red_min_).ns();
  return Hit(static_cast<uint32_t>(above * config_.red.max_ppm / span));
}

bool Impairer::EnterQueue(Time now, size_t bytes, bool ect, Fate& fate) {
  const Duration begin = Unstalled(now);
  if (WhenUnstalled(begin) > now) counts_.Add(Count::k_stalled);
  queue_end_ = std::max(queue_end_, begin);
  if (config_.bits_per_second != 0) {
    const Duration queue = queue_end_ - begin;
    const Duration own = WireTime(bytes + kWireOverheadBytes);
    if (queue + own > buffer_) {
      counts_.Add(Count::k_overflowed);
      return false;
    }
    if (HitByRed(queue)) {
      //= RFC 3168 5: a packet that is not ECT is dropped where an ECT packet
      //= would be marked
      counts_.Add(ect ? Count::k_marked : Count::k_red_dropped);
      if (!ect) return false;
      fate.mark = true;
    }
    queue_end_ = queue_end_ + own;
  }
  fate.leaves = queue_empty_ = WhenUnstalled(queue_end_);
  return true;
}

bool Impairer::IsLost() {
  const Bursts& bursts = config_.bursts;
  if (!bad_) bad_ = Hit(bursts.enter_ppm);
  if (bad_) {
    const bool lost = Hit(bursts.loss_ppm);
    bad_ = !Hit(bursts.leave_ppm);
    if (lost) {
      counts_.Add(Count::k_burst_lost);
      return true;
    }
  }
  if (!Hit(config_.loss_ppm)) return false;
  counts_.Add(Count::k_lost);
  return true;
}

Time Impairer::Arrival(Time left, bool is_copy) {
  Time arrival = left + config_.delay + Below(config_.jitter);
  if (!config_.jitter_reorders && !is_copy) {
    arrival = last_arrival_ = std::max(arrival, last_arrival_);
  }
  if (Hit(config_.reorder_ppm)) {
    if (!is_copy) counts_.Add(Count::k_reordered);
    arrival = arrival + Below(config_.reorder_by);
  }
  return arrival;
}

Fate Impairer::Offer(Time now, size_t bytes, bool ect) {
  Fate fate;
  counts_.Add(Count::k_offered);
  if (config_.die_after != Duration() && now - start_ >= config_.die_after) {
    counts_.Add(Count::k_dead);
    return fate;
  }
  if (!EnterQueue(now, bytes, ect, fate)) return fate;
  const Time left = fate.leaves;
  fate.leaves = Time::Infinite();
  // Lost after the queue: it has used its time on the wire.
  if (IsLost()) return fate;
  if (Hit(config_.duplicate_ppm)) {
    counts_.Add(Count::k_duplicated);
    fate.copy_leaves = Arrival(left + Below(config_.duplicate_by), true);
  }
  if (Hit(config_.corrupt_ppm)) {
    counts_.Add(Count::k_corrupted);
    fate.corrupt = true;
  }
  fate.leaves = Arrival(left, false);
  return fate;
}

void Impairer::Corrupt(std::span<uint8_t> frame) {
  size_t at = random_.Below(frame.size());
  for (uint64_t flips = 1 + random_.Below(3);; --flips) {
    frame[at] ^= static_cast<uint8_t>(1 << random_.Below(8));
    if (flips == 1 || frame.size() == 1) return;
    // A different byte from the last: no flip undoes the previous one.
    at = (at + 1 + random_.Below(frame.size() - 1)) % frame.size();
  }
}

}  // namespace urnic::impair
