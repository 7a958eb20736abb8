#pragma once

// One end of an iWARP connection: a TCP connection, the set-up of MPA, the
// framing, and the queue pair (rdmap::Qp) that the program has given to it.
// Sans-IO, like its parts. Thread: one at a time (the holder of the engine's
// token). Time does not go backwards. Nothing is allocated, except records of
// segments from the engine's slab.
//
// The initiator has a queue pair from the beginning. On the other side, as in
// Linux, the program creates it when the request has arrived. When the set-up
// is complete, the queue pair goes to RTS; it is not used before. When the
// connection ends, it goes to ERR.
//
// What the caller does:
//   - received: OnSegment() for each segment of a burst, in order; execute the
//     placements (OnPlacementFault() for the first that fails; later ones with
//     the same `from_responder` are skipped); Settle().
//   - sending: Transmit(); then WritePayload() for each segment, in order;
//     Settle(). It is called while has_work(), and after a doorbell.
//   - OnTimer() at deadline(); Settle(). Also after each call of the connection
//     manager.
//   - after Settle(): TakeEvent() until there is none, and done().

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "ras/metrics/rx_verdict.h"
#include "transport/base/fields.h"
#include "transport/base/frame_keeper.h"
#include "transport/base/time.h"
#include "transport/iwarp/mpa/delimiter.h"
#include "transport/iwarp/mpa/framer.h"
#include "transport/iwarp/qp/early_fpdus.h"
#include "transport/iwarp/qp/events.h"
#include "transport/iwarp/qp/kept_fpdus.h"
#include "transport/iwarp/qp/set_up.h"
#include "transport/iwarp/qp/ulpdu_reader.h"
#include "transport/iwarp/rdmap/qp.h"
#include "transport/iwarp/tcp/connection.h"

namespace urnic::iwarp {

// The pools that all connections of an engine share. They outlive the
// connections.
struct EndpointPools {
  tcp::SegmentSlab* segments = nullptr;
  tcp::RangePool* ranges = nullptr;
  tcp::ChallengeBudget* challenges = nullptr;
  FrameKeeper* frames = nullptr;  // received ones
  mpa::HeldPieces* pieces = nullptr;
  FpduKeeper* fpdus = nullptr;
  EarlyPool* early = nullptr;  // null: nothing is placed behind a hole
};

// The queue pair of a connection. It is in INIT, and outlives the endpoint
// unless Detach() is called.
struct Attachment {
  rdmap::Qp* qp = nullptr;
  // ird, ord: the program's choice, which the set-up may lower. `immediate`:
  // for a peer that is not a uRNIC.
  // REQUIRES: the queue pair has answers for ird and SetupOptions::max_ird.
  rdmap::Config config;
};

class Endpoint {
 public:
  // `kept`: see KeptFpdus. All outlive this object.
  Endpoint(const EndpointPools& pools, std::span<KeptFpdu> kept)
      : pools_(pools),
        tcp_(pools.segments, pools.ranges, pools.frames, pools.challenges),
        early_(pools.early),
        kept_(pools.fpdus, kept) {}
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // --- The connection manager ------------------------------------------------

  // `setup.timeout` includes the handshake of TCP. `setup.promise` is not used:
  // the promise of aligned segments is made to each uRNIC, if the private data
  // leave room for it.
  void Connect(const tcp::ConnectionConfig& config,
               const mpa::SetupOptions& setup, const Attachment& attachment,
               std::span<const uint8_t> private_data, Time now);
  // A listener has completed a handshake (tcp::HalfOpenTable). The segment that
  // did so comes next, by OnSegment().
  void Open(const tcp::ConnectionConfig& config,
            const tcp::Handshake& handshake, const mpa::SetupOptions& setup,
            Time now);
  // After kRequest. False: the connection has ended meanwhile. The private data
  // fit (mpa::Responder::room(), of set_up()).
  [[nodiscard]] bool Accept(const Attachment& attachment,
                            std::span<const uint8_t> private_data, Time now);
  [[nodiscard]] bool Reject(std::span<const uint8_t> private_data, Time now);
  // Ends the connection, and moves the queue pair to ERR. Sent data arrive if
  // they need not be built again from a request; requests that were only posted
  // are flushed. Also called when the program has moved the queue pair to ERR.
  void Disconnect(Time now);
  // The same, immediately: the peer gets a RST.
  void Abort(Time now);
  // Disconnects, and forgets the queue pair.
  void Detach(Time now);

  Event TakeEvent();
  // Why it has ended. Does not change after the event.
  Failure failure() const { return failure_; }
  // The private data of the peer's frame. REQUIRES: kRequest, kConnected of the
  // initiator, or kRejected was the last event.
  std::span<const uint8_t> private_data() const;
  const SetUp& set_up() const { return set_up_; }
  // For logs of inputs. delimiter() is null if it has none now.
  const EndpointPools& pools() const { return pools_; }
  const mpa::Delimiter* delimiter() const {
    return delimiter_ ? &*delimiter_ : nullptr;
  }
  uint32_t kept_limit() const { return kept_.limit(); }
  // Of the Attachment.
  const rdmap::Config& qp_config() const { return qp_config_; }
  const tcp::Connection& connection() const { return tcp_; }
  // The largest packet that is sent now, for the network's cache of path MTUs:
  // see tcp::Connection.
  uint32_t path_mtu() const { return tcp_.path_mtu(); }
  // Nothing is left to do. In TIME-WAIT, the owner keeps a record of the
  // connection (tcp::TimeWaitTable).
  bool done() const {
    return (phase_ == Phase::kClosed ||
            tcp_.state() == tcp::State::kTimeWait) &&
           !tcp_.has_work();
  }

  // --- Receiving -------------------------------------------------------------

  // sink: see rdmap::Qp. It may have OnUlpdu(ddp::Pieces), which is called
  // before the queue pair gets a ULPDU. kAccept, kTcpKept, kTcpEarly: the
  // segment was used. All others are the reason why it, or its payload, was
  // dropped, or why the stream ends.
  template <typename Sink>
  RxVerdict OnSegment(const wire::TcpSegment& segment,
                      const ReceivedFrame& frame, Time now, Sink& sink) {
    Wake(now);
    verdict_ = RxVerdict::kAccept;
    Upper<Sink> upper{*this, sink};
    const RxVerdict verdict = tcp_.OnSegment(segment, frame, now, upper);
    Follow();
    return verdict_ != RxVerdict::kAccept ? verdict_ : verdict;
  }

  void OnPlacementFault(const Placement& placement,
                        std::span<RecvCompletion> completions) {
    if (qp_ != nullptr) qp_->OnPlacementFault(placement, completions);
  }

  // See rdmap::Qp. In the middle of a burst, perhaps within OnSegment().
  // REQUIRES: there is a queue pair.
  template <typename Sink>
  void Deliver(std::span<const RecvCompletion> receives, Sink& sink) {
    qp_->Deliver(receives, sink);
  }

  // See rdmap::Qp. The state is that of the queue pair, RESET without one.
  template <typename Sink>
  FlowResult Settle(std::span<const RecvCompletion> receives, Sink& sink) {
    if (delimiter_) delimiter_->ReleaseExecuted();
    if (phase_ > Phase::kRunning) {
      delimiter_.reset();
      early_.Clear();
    }
    tcp_.ReleaseDelivered();
    position_ = 0;
    FlowResult result;
    if (qp_ != nullptr) {
      const bool failed = qp_->state() == QpState::kErr;
      result = qp_->Settle(receives, sink);
      // A Terminate waits.
      if (!failed && result.state == QpState::kErr) drained_ = false;
    }
    Follow();
    result.has_work = has_work();
    result.deadline = deadline();
    const auto& sender = tcp_.sender();
    result.answered = std::exchange(answered_, sender.una()) != sender.una();
    result.timed_out = std::exchange(timeouts_, sender.counters().timeouts) !=
                       sender.counters().timeouts;
    return result;
  }

  // --- Sending ---------------------------------------------------------------

  // Whether Transmit() may have something to send. What was posted since its
  // last call does not count.
  bool has_work() { return !drained_ && (tcp_.has_work() || HasChunk()); }
  bool only_ack_waits() { return tcp_.only_ack_waits() && !HasChunk(); }

  // Fills up to slots.size() segments; returns how many.
  uint32_t Transmit(Time now, std::span<tcp::TcpSlot> slots);

  // Writes the payload of a segment from Transmit() to `out`, which has
  // slot.bytes bytes. read: bool(uint64_t address, std::span<uint8_t> to) reads
  // the program's memory; false: it is not mapped.
  // False: the bytes cannot be made, and the connection is aborted. The segment
  // is not sent.
  template <typename Memory>
  [[nodiscard]] bool WritePayload(const tcp::TcpSlot& slot,
                                  std::span<uint8_t> out, Memory&& read) {
    // After an abort, only the RST is sent: no FIN behind bytes that will never
    // come.
    const bool is_reset = slot.fields.Has(wire::kTcpRst);
    if (tcp_.ended() != tcp::End::kNone && !is_reset) return false;
    if (out.empty()) return true;
    if (IsFrame(slot.source)) {
      set_up_.CopyFrame(FrameOffset(slot.source) + slot.offset, out);
      return true;
    }
    const SeqNum begin = slot.fields.seq + (0u - slot.offset);
    KeptFpdu* kept = kept_.Find(begin);
    if (kept == nullptr) {
      // After a move: an image can say that less was sent of a message than
      // there is of it now, or more.
      return Write(slot.source, begin, slot.offset, out, read) == out.size() ||
             LoseStream();
    }
    if (!kept->written && !WriteKept(*kept, read)) return false;
    std::memcpy(out.data(), kept->bytes.data() + slot.offset, out.size());
    return true;
  }

  // A router, or our own link, has refused a segment: see tcp::Connection. The
  // connection itself detects a smaller MTU that is not reported, and when the
  // path carries more again. The boundaries of FPDUs do not change; new ones
  // are cut for the new MSS.
  void OnTooBig(uint32_t mtu, SeqNum quoted, Time now) {
    Wake(now);
    tcp_.OnTooBig(mtu, quoted, now);
  }

  // Our own link carries packets up to this size from now on.
  void OnLinkMtu(uint32_t mtu, Time now) {
    Wake(now);
    tcp_.OnLinkMtu(mtu, now);
  }

  Time deadline() const;
  void OnTimer(Time now);
  // tcp::Connection::OnOutage().
  void OnOutage(Time now) { tcp_.OnOutage(now); }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  enum class Phase : uint8_t {
    kIdle,
    kSetUp,    // of TCP and MPA
    kRunning,  // FPDUs
    kClosing,  // received data are ignored; a FIN or a RST is due
    kClosed,
  };

  // For tcp::Connection.
  template <typename Sink>
  struct Upper {
    Endpoint& endpoint;
    Sink& sink;
    tcp::Chunk NextChunk(uint32_t max_bytes) {
      return endpoint.NextChunk(max_bytes);
    }
    void OnChunkAcked(uint64_t source) { endpoint.OnChunkAcked(source); }
    uint32_t OnBytes(SeqNum at, mpa::Piece bytes, const ReceivedFrame& frame) {
      return endpoint.TakeBytes(at, bytes, frame, sink);
    }
    bool OnEarlyBytes(SeqNum at, mpa::Piece bytes, const ReceivedFrame&) {
      return endpoint.phase_ == Phase::kRunning &&
             endpoint.delimiter_->OnEarlyBytes(at, bytes, *this);
    }
    void OnEarlyDelivered(SeqNum at, uint32_t bytes) {
      endpoint.TakeEarlier(at, bytes, sink);
    }
    // For mpa::Delimiter.
    bool OnUlpdu(const mpa::Ulpdu& ulpdu) {
      return endpoint.TakeUlpdu(ulpdu, sink);
    }
    bool MayTakeEarly(const mpa::Ulpdu& ulpdu) {
      TellOf(ulpdu.pieces, sink);
      return endpoint.early_.HasRoom(++early_fpdus) &&
             endpoint.qp_->MayPlaceEarly(ulpdu.pieces);
    }
    void OnEarlyUlpdu(SeqNum end, const mpa::Ulpdu& ulpdu) {
      endpoint.PlaceEarly(end, ulpdu, sink);
    }
    uint32_t early_fpdus = 0;  // of this segment
  };

  // Sources of chunks beside those of rdmap (ddp/source.h, kinds 0 to 2): bytes
  // of our MPA frame, from an offset, and the FPDU without a ULPDU.
  static constexpr uint64_t kOwnSource = uint64_t{3} << 62;
  static constexpr uint64_t kEmptyFpdu = kOwnSource | 1u << 31;
  static bool IsFrame(uint64_t source) {
    return source >= kOwnSource && source != kEmptyFpdu;
  }
  static uint32_t FrameOffset(uint64_t source) {
    return static_cast<uint32_t>(source - kOwnSource);
  }

  // The stream, in endpoint_stream.h.
  template <typename Sink>
  uint32_t TakeBytes(SeqNum at, mpa::Piece bytes, const ReceivedFrame& frame,
                     Sink& sink);
  template <typename Sink>
  bool TakeUlpdu(const mpa::Ulpdu& ulpdu, Sink& sink);
  template <typename Sink>
  static void TellOf(ddp::Pieces ulpdu, Sink& sink) {
    if constexpr (requires { sink.OnUlpdu(ulpdu); }) sink.OnUlpdu(ulpdu);
  }
  // An FPDU behind a hole, and later the FPDUs that the stream has reached.
  template <typename Sink>
  void PlaceEarly(SeqNum end, const mpa::Ulpdu& ulpdu, Sink& sink);
  template <typename Sink>
  void TakeEarlier(SeqNum at, uint32_t bytes, Sink& sink);
  // Writes the FPDU that begins at `begin`, from byte `offset` on, until it or
  // `out` ends. Returns how many bytes; 0: the stream is lost.
  template <typename Memory>
  uint32_t Write(uint64_t source, SeqNum begin, uint32_t offset,
                 std::span<uint8_t> out, Memory& read);
  template <typename Memory>
  bool WriteKept(KeptFpdu& kept, Memory& read);
  uint8_t NextPosition() {
    const uint8_t position = position_;
    if (position_ != UINT8_MAX) ++position_;
    return position;
  }

  // Sending.
  bool held_back() const { return !hold_until_.IsInfinite(); }
  bool MayCut() const {
    return phase_ == Phase::kRunning && set_up_.may_send() && !held_back();
  }
  bool HasChunk() {
    return set_up_.unsent_bytes() != 0 || (empty_fpdu_due_ && !held_back()) ||
           (MayCut() && qp_->HasWork());
  }
  tcp::Chunk NextChunk(uint32_t max_bytes);
  tcp::Chunk CutFpdu(uint32_t max_bytes);
  uint32_t CutSmall(uint32_t used, uint32_t max_bytes);
  void OnChunkAcked(uint64_t source);
  mpa::FpduShape ShapeAt(SeqNum begin, uint32_t ulpdu_bytes) const;
  // The bytes of a chunk cannot be made any more. Returns false.
  bool LoseStream();

  // Receiving.
  uint32_t TakeSetUpBytes(SeqNum at, mpa::Piece bytes);
  void OnFirstFpdu();
  // Acknowledges the end of a message that this completes: its peer waits.
  void NoteMessage(const mpa::Ulpdu& ulpdu);
  void TerminateFor(mpa::MpaError error);

  // Set-up.
  void FollowSetUp();
  void FollowInitiator();
  void FollowResponder();
  // False: the connection has failed.
  bool BeginFpdus();
  // How the peer's FPDUs are divided. REQUIRES: an agreement.
  mpa::DelimiterConfig PeerFraming() const;
  void BeginAsInitiator();

  // Ends.
  void Wake(Time now) {
    now_ = now;
    drained_ = false;
  }
  // Acts on the new states of the parts. Called after each input.
  void Follow();
  void OnPeerClosed();
  void OnTcpEnded();
  void EndStream();
  void Fail(Failure failure);
  void StartClosing();
  void Report(Event event) { events_ |= Bit(event); }
  // Only the first reason counts, and none after the end was reported.
  void Blame(Failure failure) {
    if (!end_reported_ && failure_ == Failure::kNone) failure_ = failure;
  }
  void ReportEnd(Event event) {
    if (!std::exchange(end_reported_, true)) Report(event);
  }
  static uint8_t Bit(Event event) {
    return static_cast<uint8_t>(1u << static_cast<uint8_t>(event));
  }

  const EndpointPools pools_;
  tcp::Connection tcp_;
  SetUp set_up_;
  std::optional<mpa::Delimiter> delimiter_;
  EarlyFpdus early_;
  KeptFpdus kept_;
  rdmap::Qp* qp_ = nullptr;  // in kSetUp it is not touched
  rdmap::Config qp_config_;
  Phase phase_ = Phase::kIdle;
  Failure failure_ = Failure::kNone;
  RxVerdict verdict_ = RxVerdict::kAccept;  // of the bytes of this segment
  uint8_t position_ = 0;                    // of the next ULPDU in the burst
  uint8_t events_ = 0;                      // not yet taken
  bool connected_ = false;
  bool request_reported_ = false;
  bool end_reported_ = false;
  bool empty_fpdu_due_ = false;
  // TCP must be closed or aborted. That is not possible within a call of TCP
  // (OnBytes), so Follow() does it.
  bool close_due_ = false;
  bool abort_due_ = false;
  // Transmit() has nothing to send until something happens.
  bool drained_ = true;
  bool starved_ = false;        // an answer waits for a place to be kept in
  bool in_message_ = false;     // of the peer: its last segment was not the end
  uint8_t small_messages_ = 0;  // of the peer, modulo 256
  Time retry_at_ = Time::Infinite();
  Time hold_until_ = Time::Infinite();  // no FPDU is cut before; infinite: now
  SeqNum answered_;                     // at the last Settle()
  uint64_t timeouts_ = 0;               // at the last Settle()
  Time now_;                            // of the last call
  SeqNum tcp_first_;                    // the first byte behind our SYN
  SeqNum cut_;                          // the end of the last chunk
  SeqNum send_start_;                   // of our FPDUs
  SeqNum peer_start_;                   // of the peer's FPDUs
};

}  // namespace urnic::iwarp

#include "transport/iwarp/qp/endpoint_stream.h"  // IWYU pragma: export
