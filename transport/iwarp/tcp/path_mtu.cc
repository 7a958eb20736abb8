#include "transport/iwarp/tcp/path_mtu.h"

#include <algorithm>
#include <utility>

#include "transport/base/check.h"

namespace urnic::tcp {
namespace {

//= RFC 4821 7.2: the base size, from which a search begins, is 1024 bytes, and
//= 1280 bytes over IPv6
constexpr uint32_t kBaseIpv4 = 1024;
//= RFC 8201 4: the path MTU of IPv6 is never less than 1280 bytes
constexpr uint32_t kLeastIpv6 = 1280;
// IPv4 allows MTUs down to 68 bytes. But a report of such a small MTU is more
// likely forged than true, and would make the connection useless.
constexpr uint32_t kLeastIpv4 = 552;

}  // namespace

void PathMtu::Start(const Config& config, Time now) {
  *this = PathMtu();
  ipv6_ = config.ipv6;
  max_mtu_ = config.max_mtu;
  least_ = std::min(ipv6_ ? kLeastIpv6 : kLeastIpv4, max_mtu_);
  base_ = std::min(ipv6_ ? kLeastIpv6 : kBaseIpv4, max_mtu_);
  mtu_ = config.path_mtu == 0 ? max_mtu_
                              : std::clamp(config.path_mtu, least_, max_mtu_);
  high_ = mtu_;
  next_probe_ = now + kRaiseInterval;
  URNIC_CHECK(least_ > header_bytes());
}

void PathMtu::ForgetProbe() {
  probing_ = false;
  probe_bytes_ = 0;
  lost_bytes_ = 0;
  probe_losses_ = 0;
}

void PathMtu::SearchOn(Time next, Time now) {
  next_probe_ = next;
  if (high_ >= mtu_ + kPrecision) return;
  high_ = mtu_;
  next_probe_ = now + kRaiseInterval;
}

void PathMtu::Shrink(uint32_t mtu, Time now) {
  mtu_ = std::max(mtu, least_);
  ForgetProbe();
  timeouts_ = 0;
  try_top_ = false;
  next_probe_ = now + kRaiseInterval;
}

bool PathMtu::OnTooBig(uint32_t reported, SeqNum quoted, SeqNum snd_una,
                       SeqNum snd_nxt, Time now) {
  //= RFC 5927 4.1: a report counts only if it quotes a segment in flight
  if (quoted - snd_una < 0 || quoted - snd_nxt >= 0) return false;
  //= RFC 8201 4: a Packet Too Big message that reports less than the IPv6
  //= minimum link MTU is discarded
  if (ipv6_ && reported < kLeastIpv6) return false;
  if (probing_ && reported >= mtu_) {
    // The report is about the probe.
    if (reported >= sent_bytes_) return false;
    ForgetProbe();
    high_ = reported;
    try_top_ = true;
    SearchOn(now, now);
    return true;
  }
  //= RFC 1191 3, RFC 8201 4: a Packet Too Big message never raises the path MTU
  if (std::max(reported, least_) >= mtu_) return false;
  Shrink(reported, now);
  high_ = mtu_;
  return true;
}

bool PathMtu::OnLimit(uint32_t max_mtu, Time now) {
  max_mtu = std::max(max_mtu, least_);
  const uint32_t before = std::exchange(max_mtu_, max_mtu);
  // The old limit has kept the packets small.
  if (max_mtu > before && mtu_ + kPrecision > before) next_probe_ = now;
  if (high_ <= max_mtu) return false;
  //= RFC 9293 3.7.1: a segment is never larger than what our own link takes
  if (mtu_ > max_mtu) Shrink(max_mtu, now);
  ForgetProbe();
  try_top_ = true;
  high_ = max_mtu;
  SearchOn(next_probe_, now);
  return true;
}

bool PathMtu::OnTimeout(uint32_t packet_bytes, Time now) {
  if (packet_bytes <= least_) return false;
  timed_out_bytes_ =
      timeouts_ == 0 ? packet_bytes : std::min(timed_out_bytes_, packet_bytes);
  //= RFC 4821 7.7: after a full stop (several time-outs in a row without a
  //= report of a router), the segments shrink to the base size, and then to
  //= less
  if (++timeouts_ < kFullStop) return false;
  const uint32_t failed = mtu_;
  // Even a packet smaller than the path MTU may not have arrived.
  Shrink(timed_out_bytes_ > base_ ? base_ : timed_out_bytes_ / 2, now);
  high_ = failed;
  // Until data of the new size arrive, the full stop lasts. The next time-out
  // may be a minute away.
  timeouts_ = kFullStop - 1;
  timed_out_bytes_ = mtu_;
  // The peer may only have been unreachable: then the first probe finds the old
  // size.
  try_top_ = true;
  // When data flows again.
  next_probe_ = now + kProbeSpacing;
  return true;
}

uint32_t PathMtu::ChooseProbe() {
  if (high_ < mtu_ + kPrecision) {
    if (mtu_ + kPrecision > max_mtu_) {
      // Nothing to find, until the MTU shrinks.
      next_probe_ = Time::Infinite();
      return 0;
    }
    //= RFC 1191 6.3, RFC 8201 5.3: ten minutes after the path MTU has shrunk, a
    //= larger size is tried, because the path may have changed
    high_ = max_mtu_;
    try_top_ = true;
    probe_bytes_ = 0;
  }
  if (probe_bytes_ == 0) {
    //= RFC 4821 7.3: the search tries the largest possible size first, and then
    //= halves the range
    probe_bytes_ = try_top_ ? high_ : mtu_ + (high_ - mtu_ + 1) / 2;
  }
  return probe_bytes_;
}

//= RFC 4821 7.6.1: the size of a probe that has arrived becomes the path MTU
void PathMtu::OnProbeAcked(Time now) {
  if (!probing_) return;
  mtu_ = std::max(mtu_, sent_bytes_);
  ForgetProbe();
  try_top_ = false;
  SearchOn(now, now);
}

//= RFC 4821 7.6.2: a size is too large if its probes are lost while the other
//= segments arrive
void PathMtu::OnProbeLost(Time now) {
  if (!probing_) return;
  probing_ = false;
  next_probe_ = now + kProbeSpacing;
  lost_bytes_ = std::max(lost_bytes_, sent_bytes_);
  if (++probe_losses_ < kProbeLosses) return;
  high_ = lost_bytes_ - 1;
  ForgetProbe();
  try_top_ = false;
  SearchOn(next_probe_, now);
}

//= RFC 4821 7.6.4: a probe that is lost together with other segments is
//= inconclusive, and its size is tried again
void PathMtu::OnProbeUnclear(Time now) {
  probing_ = false;
  next_probe_ = now + kProbeSpacing;
}

}  // namespace urnic::tcp
