#pragma once

// The largest packet for one connection. It begins with the network's path MTU
// (transport/net) and shrinks when a router reports that a packet was too big,
// or when only small segments seem to arrive, although no router says so (a
// black hole). Some time later, it is raised again by probes: segments of data
// that are larger than the others.
//
// A state machine without timers: the connection calls it when it has data to
// send.
//
// Sizes are those of IP packets.

#include <cstdint>

#include "transport/base/fields.h"
#include "transport/base/seq_num.h"
#include "transport/base/time.h"

namespace urnic::tcp {

class PathMtu {
 public:
  //= RFC 1191 6.3, RFC 8201 5.3: ten minutes after the path MTU has shrunk, a
  //= larger size is tried, because the path may have changed
  static constexpr Duration kRaiseInterval = Duration::Seconds(600);
  // The pause after a probe that was lost, or whose result is unclear.
  static constexpr Duration kProbeSpacing = Duration::Seconds(1);
  // A size is too large if this many probes of it were lost.
  static constexpr uint32_t kProbeLosses = 3;
  //= RFC 4821 7.7: a full stop is as many time-outs in a row as R1, here three
  static constexpr uint32_t kFullStop = 3;
  // The search ends when it has come so close.
  static constexpr uint32_t kPrecision = 16;

  struct Config {
    bool ipv6 = false;
    uint32_t max_mtu = 1500;  // of the link, or what the peer receives
    // The MTU of the path, as the network knows it; 0: unknown.
    uint32_t path_mtu = 0;
  };
  void Start(const Config& config, Time now);

  uint32_t mtu() const { return mtu_; }
  //= RFC 9293 3.7.1: the MSS is the size of a packet less the fixed headers of
  //= IP and TCP
  // Of IP and of TCP without options.
  uint32_t header_bytes() const { return HeaderBytes(ipv6_); }
  static constexpr uint32_t HeaderBytes(bool ipv6) {
    return (ipv6 ? 40 : 20) + 20;
  }

  // A router reports that the segment with this sequence number was too big.
  // `reported`: the MTU of its link.
  // True: packets of more than mtu() bytes are lost: the MTU has shrunk, or the
  // report is about the probe.
  bool OnTooBig(uint32_t reported, SeqNum quoted, SeqNum snd_una,
                SeqNum snd_nxt, Time now);

  // The largest packet that our own link and the peer accept has changed. If
  // that limit has kept the packets small, larger ones are tried soon. True: as
  // above.
  bool OnLimit(uint32_t max_mtu, Time now);

  // The retransmission timer has expired for a segment of this packet size.
  // True: the MTU has shrunk.
  bool OnTimeout(uint32_t packet_bytes, Time now);
  // A segment of this packet size was acknowledged.
  void OnAcked(uint32_t packet_bytes) {
    if (packet_bytes >= timed_out_bytes_) timeouts_ = 0;
  }

  // The size of a packet with which a larger MTU may be tried; 0: none now. The
  // sender also needs that much data, room in its window, and no loss that it
  // is repairing.
  uint32_t ProbeBytes(Time now) {
    return probing_ || now < next_probe_ ? 0 : ChooseProbe();
  }
  // The probe may be smaller, if the data are.
  // REQUIRES: mtu() < packet_bytes <= ProbeBytes()
  void OnProbeSent(uint32_t packet_bytes) {
    probing_ = true;
    sent_bytes_ = packet_bytes;
  }
  // The fate of the probe. Lost: segments that were sent after it arrived, so
  // this is not a sign of congestion. Unclear: other segments were lost, too.
  void OnProbeAcked(Time now);
  void OnProbeLost(Time now);
  void OnProbeUnclear(Time now);

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  uint32_t ChooseProbe();
  void ForgetProbe();
  // The next probe is due at `next`, or much later if the size is found.
  void SearchOn(Time next, Time now);
  // Smaller than mtu_, at least least_.
  void Shrink(uint32_t mtu, Time now);

  bool ipv6_ = false;
  bool probing_ = false;  // a probe is in flight
  bool try_top_ = false;  // the next probe has the size high_
  uint32_t max_mtu_ = 0;
  uint32_t least_ = 0;        // we do not go below
  uint32_t base_ = 0;         // nearly every path carries it
  uint32_t mtu_ = 0;          // known to arrive, or not yet doubted
  uint32_t high_ = 0;         // the largest size that may still be possible
  uint32_t probe_bytes_ = 0;  // the size that is being tried; 0: none
  uint32_t sent_bytes_ = 0;   // of the probe in flight
  uint32_t lost_bytes_ = 0;   // the largest probe of those that were lost
  uint32_t probe_losses_ = 0;
  uint32_t timeouts_ = 0;         // in sequence, of packets that are large
  uint32_t timed_out_bytes_ = 0;  // the smallest of these
  Time next_probe_;
};

}  // namespace urnic::tcp
