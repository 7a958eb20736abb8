#pragma once

// The sending half of a TCP connection, after its SYN is acknowledged.
//
// It decides what is sent and when, and stores no payload: see chunk.h. The
// connection makes headers for the segments of Transmit(), and passes in every
// segment whose sequence number is acceptable and that has the ACK flag.
//
// Upper: the layer above.
//   Chunk NextChunk(uint32_t max_bytes)   the next chunk of at most max_bytes;
//                                         bytes 0: nothing to send
//   void OnChunkAcked(uint64_t source)    once for each chunk, in order
//
// Call Transmit() after OnAck(), after OnTimer(), and when the layer above has
// a new chunk. Call OnTimer() at deadline().
//
// A chunk is sent in one segment. It is divided only if the MSS has become
// smaller, or if the peer's window is too small for it for a long time.
// MayBeginSegment() determines where a part may begin.
//
// Without SACK, losses are found by duplicate acknowledgements, and there is
// neither RACK, nor a tail loss probe, nor F-RTO, nor a probe of the MTU.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "transport/base/check.h"
#include "transport/base/fields.h"
#include "transport/cc/congestion_control.h"
#include "transport/cc/flow_rounds.h"
#include "transport/cc/round_trip_counts.h"
#include "transport/iwarp/tcp/chunk.h"
#include "transport/iwarp/tcp/peer_window.h"
#include "transport/iwarp/tcp/rate_reduction.h"
#include "transport/iwarp/tcp/round_trip.h"
#include "transport/iwarp/tcp/scoreboard.h"
#include "transport/iwarp/tcp/spurious.h"
#include "transport/iwarp/tcp/tail_probe.h"
#include "transport/wire/tcp.h"

namespace urnic::tcp {

enum class AckResult : uint8_t {
  kNew,        // SND.UNA has moved
  kDuplicate,  // valid, and SND.UNA has not moved
  kOld,        // of before SND.UNA: ignored
  //= RFC 5961 5.2: an acknowledgement number outside of the valid range is
  //= answered by a challenge ACK
  kTooOld,  // older than the largest window of the peer
  kUnsent,  // acknowledges what was never sent
};

struct SenderConfig {
  uint32_t mss = 536;      // payload of a segment, all options considered
  bool sack = true;        // negotiated
  bool timestamps = true;  // negotiated
  bool ecn = false;        // negotiated
  bool paced = true;       // off: a burst may leave as a whole
  uint8_t max_order = 8;   // at most 64 * 2^max_order segments in flight
  TimestampClock clock = {};
  //= RFC 6298 5.7: if a SYN had to be resent, the first time-out of data is 3 s
  Duration initial_timeout = RoundTrip::kInitial;
  // The longest delay of the peer's acknowledgement of a single segment.
  Duration max_ack_delay = Duration::Milliseconds(200);
};

// The fate of a segment that tries a larger MTU.
enum class MtuProbeFate : uint8_t {
  kNone,
  kArrived,
  kLost,     // while nothing else was lost
  kUnclear,  // lost with others
};

struct SenderCounters {
  uint64_t segments = 0;         // with data or FIN
  uint64_t retransmissions = 0;  // of them
  uint64_t bytes_acked = 0;
  uint64_t timeouts = 0;
  uint64_t recoveries = 0;  // fast
  uint64_t undone = 0;      // reductions that were a mistake
  uint64_t tail_probes = 0;
  uint64_t window_probes = 0;
  uint64_t ecn_reductions = 0;
  uint64_t unsent_acks = 0;
  uint64_t dsacks = 0;
  uint64_t bad_sacks = 0;  // blocks that no honest peer sends
  uint64_t reneged = 0;
  uint64_t no_records = 0;  // sending waited for memory
};

template <cc::StreamCongestionControl Cc>
class Sender {
 public:
  using Config = SenderConfig;
  using Counters = SenderCounters;

  // The congestion control must be started by the caller.
  Cc cc;

  // `first`: the first byte after our SYN. `peer_seq` and `window` (in bytes):
  // of the segment that acknowledged it. `slab` outlives the sender.
  void Start(const Config& config, SegmentSlab* slab, SeqNum first,
             SeqNum peer_seq, uint32_t window) {
    URNIC_CHECK(config.mss != 0 && config.mss <= UINT16_MAX);
    config_ = config;
    board_.Start(slab, config.max_order, first);
    state_ = State();
    state_.una = state_.nxt = state_.ecn_point = first;
    state_.recover = SeqNum(first.value() - 1);
    state_.rounds.Start(first);
    state_.peer.Start(peer_seq, first, window);
    state_.round_trip.initial = config.initial_timeout;
    counters_ = Counters();
  }
  // The round trip of the SYN, if it was sent once.
  void OnHandshakeRoundTrip(Duration sample, Time now) {
    state_.round_trip.OnSample(sample, now);
    round_trips_.Add(sample);
  }

  // `window`: that of the segment, in bytes (shifted).
  template <typename Upper>
  AckResult OnAck(const wire::TcpSegment& segment, uint32_t window, Time now,
                  Upper& upper);

  // Writes segments to `out` and returns their number. If it is out.size(),
  // there may be more.
  template <typename Upper>
  uint32_t Transmit(Time now, std::span<SegmentToSend> out, Upper& upper);

  Time deadline() const {
    //= RFC 8985 8: RACK, the tail loss probe and the retransmission time-out
    //= share one timer; while RACK waits for reordered segments, it is the
    //= timer of RACK
    const Time timer = state_.reorder_at.IsInfinite()
                           ? std::min(state_.probe_at, state_.timeout_at)
                           : state_.reorder_at;
    return std::min(timer, state_.resume_at);
  }
  void OnTimer(Time now);

  // No more chunks will come: a FIN follows the last one.
  void Finish() { state_.finishing = true; }
  bool fin_acked() const { return state_.fin_sent && state_.una == state_.nxt; }

  // Sets the payload that the path carries. Larger segments in flight are lost,
  // including a probe.
  //= RFC 1191 6.4, RFC 8201 5.4: a retransmission because of a Packet Too Big
  //= message does not change the congestion window
  void OnMss(uint32_t mss) {
    URNIC_CHECK(mss != 0 && mss <= UINT16_MAX);
    if (mss != config_.mss) cc.SetMss(mss);
    config_.mss = mss;
    state_.mtu_probe = false;
    state_.mtu_probe_bytes = 0;
    state_.mtu_probe_fate = MtuProbeFate::kNone;
    board_.MarkOversizedLost(mss);
  }

  //= RFC 4821 7.4: a larger path MTU is probed with a segment of new data
  // From now on, a chunk may have up to `payload_bytes` bytes, more than the
  // MSS. The first chunk with more than the MSS is the probe, and its fate is
  // known later. REQUIRES: no probe is in flight.
  void ProbeMtu(uint32_t payload_bytes) {
    URNIC_CHECK(!state_.mtu_probe && payload_bytes <= UINT16_MAX);
    state_.mtu_probe_bytes = payload_bytes;
  }
  bool mtu_probe_under_way() const { return state_.mtu_probe; }
  MtuProbeFate TakeMtuProbeFate() {
    return std::exchange(state_.mtu_probe_fate, MtuProbeFate::kNone);
  }
  // The payload of the largest segment that the last OnAck() found delivered,
  // and of the first unacknowledged one; 0: none. Larger segments count as the
  // MSS, because they were resent in parts.
  uint32_t largest_delivered() const {
    return std::min(state_.largest_delivered, config_.mss);
  }
  uint32_t first_unacknowledged_bytes() const {
    if (board_.empty()) return 0;
    return std::min<uint32_t>(board_.ring().at(board_.ring().first()).bytes,
                              config_.mss);
  }

  // Transmit() would send something, even if the layer above has nothing new.
  bool HasWork() const {
    if (state_.window_probe_due || state_.force_head || state_.probe.due) {
      return true;
    }
    if (!HasRoom(1)) return false;
    if (board_.lost_segments() != 0) return true;
    if (state_.pending.bytes == 0 && (!state_.finishing || state_.fin_sent)) {
      return false;
    }
    //= RFC 9293 3.8.6.1: a zero window is probed, also if only a FIN waits
    // Transmit() starts the timer of the probes.
    const bool unprobed = board_.empty() && !state_.persisting;
    return unprobed || state_.peer.Usable(state_.una, state_.nxt) != 0;
  }

  //= RFC 9293 3.8.3: a connection whose data are retransmitted for longer than
  //= R2 is closed
  // The number of time-outs in a row without any progress. While the peer's
  // window is closed, an acknowledgement is enough progress.
  uint32_t timeouts() const { return state_.timeouts; }

  SeqNum una() const { return state_.una; }
  SeqNum nxt() const { return state_.nxt; }
  uint32_t mss() const { return config_.mss; }
  uint32_t peer_window() const { return state_.peer.bytes; }
  // The peer has no room even for the smallest part of a chunk.
  bool window_closed() const { return state_.peer.bytes < kLeastPart; }
  Duration smoothed_round_trip() const { return state_.round_trip.smoothed; }
  // The round trips that were measured here; they are not a part of images.
  const cc::RoundTripCounts& round_trips() const { return round_trips_; }
  // Everything was sent and acknowledged.
  bool idle() const { return board_.empty() && state_.pending.bytes == 0; }
  bool recovering() const { return state_.phase != Phase::kOpen; }
  uint64_t pipe() const;
  const Scoreboard& scoreboard() const { return board_; }
  const Counters& counters() const { return counters_; }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  enum class Phase : uint8_t { kOpen, kRecovery, kTimeout };
  struct Dsack {
    bool present = false;
    SeqNum begin;
    SeqNum end;
  };
  struct State {
    SeqNum una;
    SeqNum nxt;
    PeerWindow peer;
    RoundTrip round_trip;
    cc::FlowRounds<SeqNum> rounds;
    Phase phase = Phase::kOpen;
    SeqNum recover;  // the end of the loss episode
    RateReduction reduction;
    Episode episode;
    ForwardRto forward;
    SeqNum timeout_una;
    TailProbe probe;
    Chunk pending;  // taken from the layer above, not sent as a whole
    uint32_t pending_offset = 0;
    // A lost segment that is resent in pieces, because the MSS has shrunk.
    bool in_pieces = false;
    uint32_t pieces_of = 0;   // its number
    SeqNum pieces_end;        // resent up to here
    uint32_t duplicates = 0;  // acknowledgements in a row, without SACK
    uint32_t timeouts = 0;
    bool finishing = false;
    bool fin_sent = false;
    bool force_head = false;  // a time-out: send the first segment
    bool persisting = false;  // timeout_at is the persist timer
    bool override_due = false;
    bool window_probe_due = false;
    bool cwr_due = false;
    uint32_t resent = 0;           // segments, in this loss episode
    uint32_t mtu_probe_bytes = 0;  // the limit of the next chunk
    uint32_t mtu_probe_number = 0;
    bool mtu_probe = false;  // mtu_probe_number is in flight
    MtuProbeFate mtu_probe_fate = MtuProbeFate::kNone;
    uint32_t largest_delivered = 0;
    SeqNum ecn_point;  // one reduction until this is acknowledged
    Time timeout_at = Time::Infinite();
    Time probe_at = Time::Infinite();
    Time reorder_at = Time::Infinite();
    Time resume_at = Time::Infinite();  // pacing, or waiting for records
  };
  // How long sending waits for a record when no acknowledgement will come.
  static constexpr Duration kRecordRetry = Duration::Milliseconds(1);

  // If the thread could not run for longer than a timer is ever late, the
  // sender catches up to its rate; the window still limits the burst. Without
  // this, a sender on a busy CPU would lose bandwidth to stacks that do not
  // pace. Linux also paces bursts of a millisecond.
  static constexpr Duration kPacingCatchUp = cc::Pacer::kCatchUpMax;

  // Two bytes: then there is a place where a part may end (MayBeginSegment()).
  static constexpr uint32_t kLeastPart = 2;

  uint64_t window_bytes() const { return uint64_t{cc.window()} * config_.mss; }
  uint32_t Packets(uint64_t bytes) const {
    return static_cast<uint32_t>((bytes + config_.mss - 1) / config_.mss);
  }
  bool HasRoom(uint32_t bytes) const;
  // Bytes of the lost segment that is being resent in pieces.
  uint32_t PiecesSent() const;
  bool Paced(Time now);
  Duration ReorderWindow() const {
    return board_.rack.ReorderWindow(recovering(), board_.sacked_segments(),
                                     state_.round_trip.shortest.value(),
                                     state_.round_trip.smoothed);
  }
  uint64_t Flight() const {
    return static_cast<uint32_t>(state_.nxt - state_.una) -
           board_.sacked_bytes();
  }

  // kNew, kDuplicate: the acknowledgement number is acceptable.
  AckResult Judge(SeqNum ack);
  Dsack TakeSacks(const wire::TcpSegment& segment, Delivery& delivery);
  void Measure(const wire::TcpSegment& segment, const Delivery& delivery);
  void OnProgress(Time now);
  void JudgeRetransmissions(const Delivery& delivery, const Dsack& dsack,
                            bool duplicate);
  void Undo();
  // Returns true if the probe of an MTU is all that was lost.
  bool JudgeMtuProbe();
  // The next chunk may be the probe of an MTU.
  bool MayProbeMtu() const;
  // If the last segment is the probe of an MTU, takes it for lost.
  bool GiveUpLastMtuProbe();
  // Returns true if more is lost.
  bool FindLosses(Time now);
  bool FindLossesWithoutSack(const Delivery& delivery, bool duplicate);
  void Recover(const Delivery& delivery, uint64_t flight_before, bool lost,
               bool duplicate);
  void EnterRecovery(Time now, uint64_t flight, uint32_t delivered);
  void OnReduced();
  void SetReducedWindow();
  void Report(const wire::TcpSegment& segment, const Delivery& delivery);
  void OnTimeout(Time now);
  void ScheduleProbe(Time now);

  void SendWindowProbe(SegmentToSend& out);
  bool Resend(uint32_t number, bool force, Time now, SegmentToSend& out);
  template <typename Upper>
  bool SendNew(bool force, Time now, SegmentToSend& out, Upper& upper);
  template <typename Upper>
  bool SendTailProbe(Time now, SegmentToSend& out, Upper& upper);
  void AppendNew(uint32_t bytes, bool fin, Time now, SegmentToSend& out);
  bool WaitForWindow(uint32_t usable, Time now);
  void OnSent(uint32_t bytes, Time now);

  Config config_;
  State state_;
  Scoreboard board_;
  Counters counters_;
  cc::RoundTripCounts round_trips_;
};

}  // namespace urnic::tcp

#include "transport/iwarp/tcp/sender_ack.h"       // IWYU pragma: export
#include "transport/iwarp/tcp/sender_timers.h"    // IWYU pragma: export
#include "transport/iwarp/tcp/sender_transmit.h"  // IWYU pragma: export
