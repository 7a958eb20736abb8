#pragma once

// The lists of members of a TCP connection (transport/work/image_codec.h). The
// state of the listener is not a connection's: half-open ones are not carried.

#include "transport/iwarp/tcp/connection.h"
#include "transport/iwarp/tcp/receiver_fields.h"
#include "transport/iwarp/tcp/sender_fields.h"

namespace urnic {

namespace tcp {
// By the values of State and End.
inline constexpr const char* kStateNames[] = {
    "CLOSED",     "SYN-SENT",   "SYN-RECEIVED", "ESTABLISHED", "FIN-WAIT-1",
    "FIN-WAIT-2", "CLOSE-WAIT", "CLOSING",      "LAST-ACK",    "TIME-WAIT"};
inline constexpr const char* kEndNames[] = {"none",  "closed",    "refused",
                                            "reset", "timed_out", "aborted"};
}  // namespace tcp

template <>
struct FieldsOf<tcp::Offer> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, mss, default_mss, timestamps, sack, ecn, urnic_option);
    f("mss", mss);
    f("default_mss", default_mss);
    f("timestamps", timestamps);
    f("sack", sack);
    f("ecn", ecn);
    f("urnic", urnic_option);
  }
};

template <>
struct FieldsOf<tcp::Agreed> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, mss, timestamps, sack, ecn, urnic_option, window_shift);
    f("mss", mss);
    f("timestamps", timestamps);
    f("sack", sack);
    f("ecn", ecn);
    f("urnic", urnic_option);
    uint8_t shift = window_shift.value_or(kNoScaling);
    f("window_shift", shift);
    f.Require(shift <= wire::kTcpMaxWindowShift || shift == kNoScaling,
              "window_shift", shift, "is more than the limit");
    if constexpr (F::kReads) {
      window_shift.reset();
      if (shift != kNoScaling) window_shift = shift;
    }
  }

 private:
  static constexpr uint8_t kNoScaling = UINT8_MAX;
};

template <>
struct FieldsOf<tcp::ConnectionConfig> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, local_port, remote_port, iss, timestamp_offset, offer,
                  ipv6, path_mtu, window_bytes, dctcp, paced, user_timeout,
                  syn_timeout, keepalive_idle, keepalive_interval,
                  keepalive_probes, fin_timeout);
    f("local_port", local_port);
    f("remote_port", remote_port);
    f("iss", iss);
    // The timestamps continue from the last value, with the clock of the
    // destination.
    uint32_t timestamp = tcp::TimestampClock{timestamp_offset}.At(f.now());
    f("timestamp", timestamp);
    if constexpr (F::kReads) {
      timestamp_offset = timestamp - tcp::TimestampClock().At(f.now());
    }
    f.Group("offer", offer);
    f("ipv6", ipv6);
    f("path_mtu", path_mtu);
    f("window_bytes", window_bytes);
    f("dctcp", dctcp);
    f("paced", paced);
    f("user_timeout", user_timeout);
    f("syn_timeout", syn_timeout);
    f("keepalive_idle", keepalive_idle);
    f("keepalive_interval", keepalive_interval);
    f("keepalive_probes", keepalive_probes);
    f("fin_timeout", fin_timeout);
    tcp::RequireShort(f, "keepalive_interval", keepalive_interval);
  }
};

template <>
struct FieldsOf<tcp::ChallengeLimit> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, next);
    f.Deadline("next_challenge", next);
    f.Require(!next.IsInfinite(), "next_challenge", UINT64_MAX, "is never");
  }
};

// The limits follow from what both ends have agreed on (StartPath()).
template <>
struct FieldsOf<tcp::PathMtu> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, ipv6, probing, try_top, max_mtu, least, base, mtu, high,
                  probe_bytes, sent_bytes, lost_bytes, probe_losses, timeouts,
                  timed_out_bytes, next_probe);
    f("probing", probing);
    f("try_top", try_top);
    f("mtu", mtu);
    f("high", high);
    f("probe_bytes", probe_bytes);
    f("sent_bytes", sent_bytes);
    f("lost_bytes", lost_bytes);
    f("probe_losses", probe_losses);
    f("timeouts", timeouts);
    f("timed_out_bytes", timed_out_bytes);
    f.Deadline("next_probe", next_probe);
    f.Elsewhere(ipv6, max_mtu, least, base);
  }
  // Of a path that has begun.
  static void Check(ImageReader& f, const tcp::PathMtu& p);
};

template <>
struct FieldsOf<tcp::Connection> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, segments, config, sender, receiver, challenges,
                  challenge_limit, state, end, reset_due, syn_due, probe_due,
                  keepalives_sent, syns_sent, agreed, path, reset_seq,
                  reset_ack, opened, syn_sent, syn_at, fin_acked, heard,
                  progress);
    f("state", state, tcp::State::kTimeWait, tcp::kStateNames);
    f("end", end, tcp::End::kAborted, tcp::kEndNames);
    f("reset_due", reset_due);
    f("syn_due", syn_due);
    f("probe_due", probe_due);
    f("keepalives_sent", keepalives_sent);
    f("syns_sent", syns_sent);
    f("reset_seq", reset_seq);
    f("reset_ack", reset_ack);
    f.Since("opened", opened, true);
    f.Since("syn_sent", syn_sent, syns_sent != 0);
    f.Deadline("syn_at", syn_at);
    f.Since("fin_acked", fin_acked, state == tcp::State::kFinWait2);
    f.Since("heard", heard, true);
    f.Since("progress", progress, true);
    f.Group("config", config);
    f.Group("agreed", agreed);
    if constexpr (F::kReads) {
      if (!RequireMss(f, s)) return;
      if (s.is_synchronized()) s.StartPath(f.now());
    }
    f.Group("path", path);
    f.Group("challenge", challenge_limit);
    f.Elsewhere(segments, challenges);  // the engine's
    if constexpr (F::kReads) sender.board_.ring_.slab_ = segments;
    f.Group("sender", sender);
    f.Group("receiver", receiver);
    if constexpr (F::kReads) {
      sender.config_.clock = s.clock();
      sender.config_.paced = config.paced;
    }
  }
  static void Check(ImageReader& f, const tcp::Connection& c);

  // Chunks exist from the end of the handshake on.
  static bool HasChunks(const tcp::Connection& c) {
    return c.is_synchronized();
  }
  // See the sender's. REQUIRES: HasChunks().
  template <typename Visitor>
  static void ForChunks(const tcp::Connection& c, Visitor&& chunk) {
    FieldsOf<tcp::Sender<cc::TcpCongestion>>::ForChunks(c.sender_, chunk);
  }
  // Where the next chunk begins. REQUIRES: HasChunks().
  static SeqNum EndOfChunks(const tcp::Connection& c) {
    const auto& state = c.sender_.state_;
    const uint32_t unsent = state.pending.bytes == 0
                                ? 0
                                : state.pending.bytes - state.pending_offset;
    return state.nxt + (unsent - uint32_t{state.fin_sent});
  }
  // See those of the receiver.
  template <typename Visitor>
  static void ForEarlyRanges(const tcp::Connection& c, Visitor&& range) {
    FieldsOf<tcp::OutOfOrder>::ForEarly(c.receiver_.held_, range);
  }

 private:
  // Whether both ends receive segments that are large enough for any options.
  static bool RequireMss(ImageReader& f, const tcp::Connection& c);
  static void CheckPath(ImageReader& f, const tcp::Connection& c);
};

}  // namespace urnic
