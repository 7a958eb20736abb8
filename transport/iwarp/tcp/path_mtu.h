#pragma once

// The largest packet for one connection. It begins with the network's path MTU
// (transport/net) and shrinks when a router reports that a packet was too big,
// or when only small segments seem to arrive, although no router says so (a
// black hole). Some time later, it is raised again by probes: segments of data
// that are larger than the others.
//
// A state machine without timers: the sender asks when it has something to
// send.
//
// Sizes are those of IP packets.

#include <cstdint>

#include "transport/base/seq_num.h"
#include "transport/base/time.h"

namespace urnic::tcp {

class PathMtu {
 public:
  //= RFC 1191 6.3, RFC 8201 5.3: a larger size is tried after ten minutes
  static constexpr Duration kRaiseInterval = Duration::Seconds(600);
  // After a probe that was lost, or that says nothing.
  static constexpr Duration kProbeSpacing = Duration::Seconds(1);
  // A size is too large if this many probes of it were lost.
  static constexpr uint32_t kProbeLosses = 3;
  //= RFC 4821 7.7: the R1 of TCP (RFC 9293 3.8.3) is three retransmissions
  static constexpr uint32_t kFullStop = 3;
  // The search ends when it has come so close.
  static constexpr uint32_t kPrecision = 16;

  struct Config {
    bool ipv6 = false;
    uint32_t link_mtu = 1500;
    // What the network knows of the path; 0: nothing.
    uint32_t path_mtu = 0;
  };
  void Start(const Config& config, Time now);

  uint32_t mtu() const { return mtu_; }
  //= RFC 9293 3.7.1: the headers, and the options in each segment, count
  // The payload of a segment that fits.
  uint32_t PayloadBytes(uint32_t option_bytes) const {
    return PayloadOf(mtu_, option_bytes);
  }
  uint32_t PayloadOf(uint32_t mtu, uint32_t option_bytes) const {
    return mtu - HeaderBytes() - option_bytes;
  }

  // A router reports that the segment with this sequence number was too big.
  // `reported`: the MTU of its link; 0: an old router, which does not say.
  // True: the MTU has shrunk; lost segments should be sent again.
  bool OnTooBig(uint32_t reported, SeqNum quoted, SeqNum snd_una,
                SeqNum snd_nxt, Time now);

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
  uint32_t ProbeBytes(Time now);
  void OnProbeSent() { probing_ = true; }
  // The fate of the probe. Lost: while segments sent after it arrived. That is
  // not a sign of congestion. Unclear: other segments were lost, too.
  void OnProbeAcked(Time now);
  void OnProbeLost(Time now);
  void OnProbeUnclear(Time now);

 private:
  uint32_t HeaderBytes() const { return (ipv6_ ? 40 : 20) + 20; }
  // Smaller than mtu_, at least least_.
  void Shrink(uint32_t mtu, Time now);

  bool ipv6_ = false;
  bool probing_ = false;
  bool try_top_ = false;  // the next probe has the size high_
  uint32_t link_mtu_ = 0;
  uint32_t least_ = 0;        // we do not go below
  uint32_t base_ = 0;         // nearly every path carries it
  uint32_t mtu_ = 0;          // known to arrive, or not yet doubted
  uint32_t high_ = 0;         // the largest size that may still be possible
  uint32_t probe_bytes_ = 0;  // the size that is being tried; 0: none
  uint32_t probe_losses_ = 0;
  uint32_t timeouts_ = 0;         // in sequence, of packets that are large
  uint32_t timed_out_bytes_ = 0;  // the smallest of these
  Time next_probe_;
};

}  // namespace urnic::tcp
