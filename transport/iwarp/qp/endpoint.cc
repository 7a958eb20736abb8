#include "transport/iwarp/qp/endpoint.h"

#include <bit>

#include "transport/base/mutation.h"

namespace urnic::iwarp {
namespace {

// How long an answer waits for a place for its copy, if no acknowledgement will
// free one.
constexpr Duration kKeepRetry = Duration::Milliseconds(1);

// How long the initiator's first FPDU waits behind the reply of a peer that is
// not a uRNIC: two round trips, within these limits. Linux siw sends its reply
// before it is ready for FPDUs, and loses one that arrives within a
// millisecond.
constexpr Duration kMinHold = Duration::Milliseconds(2);
constexpr Duration kMaxHold = Duration::Milliseconds(10);

// One in this many messages that a uRNIC keeps is acknowledged at once, so that
// the copies of messages that are sent one by one do not fill all places.
constexpr uint8_t kSmallPerAck = 16;

Failure FailureOf(tcp::End end) {
  switch (end) {
    case tcp::End::kRefused:
      return Failure::kRefused;
    case tcp::End::kReset:
      return Failure::kReset;
    case tcp::End::kTimedOut:
      return Failure::kTimedOut;
    case tcp::End::kAborted:
      return Failure::kAborted;
    default:
      return Failure::kNone;
  }
}

Failure FailureOf(mpa::MpaError error) {
  if (error == mpa::MpaError::kNone) return Failure::kTimedOut;
  return error == mpa::MpaError::kConnectionLost ? Failure::kReset
                                                 : Failure::kProtocol;
}

}  // namespace

// --- The connection manager --------------------------------------------------

void Endpoint::Connect(const tcp::ConnectionConfig& config,
                       const mpa::SetupOptions& setup,
                       const Attachment& attachment,
                       std::span<const uint8_t> private_data, Time now) {
  URNIC_CHECK(phase_ == Phase::kIdle);
  qp_ = attachment.qp;
  qp_config_ = attachment.config;
  phase_ = Phase::kSetUp;
  tcp_first_ = cut_ = config.iss + 1;
  Wake(now);
  mpa::SetupOptions options = setup;
  options.promise =
      private_data.size() <= mpa::MaxPrivateData(setup.revision, true);
  set_up_.Initiate(options, private_data, now);
  tcp_.Connect(config, now);
}

void Endpoint::Open(const tcp::ConnectionConfig& config,
                    const tcp::Handshake& handshake,
                    const mpa::SetupOptions& setup, Time now) {
  URNIC_CHECK(phase_ == Phase::kIdle);
  phase_ = Phase::kSetUp;
  tcp_first_ = cut_ = config.iss + 1;
  Wake(now);
  mpa::SetupOptions options = setup;
  options.promise = handshake.agreed.urnic;
  set_up_.Respond(options, now);
  tcp_.Accept(config, handshake, now);
}

bool Endpoint::Accept(const Attachment& attachment,
                      std::span<const uint8_t> private_data, Time now) {
  if (phase_ != Phase::kSetUp || !set_up_.has_request()) return false;
  Wake(now);
  qp_ = attachment.qp;
  qp_config_ = attachment.config;
  set_up_.Accept(static_cast<uint16_t>(qp_config_.ird),
                 static_cast<uint16_t>(qp_config_.ord), private_data, now);
  if (BeginFpdus() && set_up_.agreement().rtr == mpa::kRtrNone) {
    connected_ = true;
    Report(Event::kConnected);
  }
  Follow();
  return true;
}

bool Endpoint::Reject(std::span<const uint8_t> private_data, Time now) {
  if (phase_ != Phase::kSetUp || !set_up_.has_request()) return false;
  Wake(now);
  set_up_.Reject(private_data);
  end_reported_ = true;
  StartClosing();
  Follow();
  return true;
}

void Endpoint::Disconnect(Time now) {
  Wake(now);
  if (phase_ == Phase::kSetUp) Fail(Failure::kAborted);
  if (phase_ == Phase::kRunning) qp_->Abort();
  Follow();
}

void Endpoint::Abort(Time now) {
  Wake(now);
  Blame(Failure::kAborted);
  tcp_.Abort();
  Follow();
}

void Endpoint::Detach(Time now) {
  Disconnect(now);
  // A Terminate that waits is lost with it.
  if (phase_ == Phase::kRunning) EndStream();
  Follow();
  qp_ = nullptr;
}

Event Endpoint::TakeEvent() {
  if (events_ == 0) return Event::kNone;
  const auto event = static_cast<Event>(std::countr_zero(events_));
  events_ &= static_cast<uint8_t>(~Bit(event));
  return event;
}

std::span<const uint8_t> Endpoint::private_data() const {
  return set_up_.initiates() ? set_up_.initiator().private_data()
                             : set_up_.responder().request().private_data;
}

// --- Set-up ------------------------------------------------------------------

uint32_t Endpoint::TakeSetUpBytes(SeqNum at, mpa::Piece bytes) {
  RxVerdict verdict = RxVerdict::kAccept;
  const uint32_t taken = set_up_.OnBytes(bytes, verdict);
  if (verdict != RxVerdict::kAccept) verdict_ = verdict;
  peer_start_ = at + taken;
  FollowSetUp();
  return taken;
}

void Endpoint::FollowSetUp() {
  if (set_up_.initiates()) {
    FollowInitiator();
  } else {
    FollowResponder();
  }
}

void Endpoint::FollowInitiator() {
  using State = mpa::Initiator::State;
  switch (set_up_.initiator().state()) {
    case State::kIdle:
    case State::kWaiting:
      return;
    case State::kAgreed:
      BeginAsInitiator();
      return;
    case State::kTerminate:
      //= RFC 6581 8: if the reply does not suit the initiator, it says why in a
      //= Terminate
      if (!BeginFpdus()) return;
      Blame(Failure::kProtocol);
      ReportEnd(Event::kFailed);
      TerminateFor(set_up_.initiator().error());
      return;
    case State::kRejected:
      ReportEnd(Event::kRejected);
      StartClosing();
      return;
    case State::kRetryRevision1:
      ReportEnd(Event::kRetryRevision1);
      StartClosing();
      return;
    case State::kFailed:
      Fail(FailureOf(set_up_.initiator().error()));
      return;
  }
}

void Endpoint::FollowResponder() {
  using State = mpa::Responder::State;
  const mpa::Responder& responder = set_up_.responder();
  if (responder.state() == State::kRequested &&
      !std::exchange(request_reported_, true)) {
    Report(Event::kRequest);
  }
  if (responder.state() == State::kFailed) Fail(FailureOf(responder.error()));
}

void Endpoint::BeginAsInitiator() {
  if (!BeginFpdus()) return;
  connected_ = true;
  Report(Event::kConnected);
  if (!tcp_.peer_is_urnic()) {
    hold_until_ = now_ + std::clamp(tcp_.sender().smoothed_round_trip() * 2,
                                    kMinHold, kMaxHold);
  }
  //= RFC 6581 9: in the peer-to-peer model, the initiator sends the first FPDU,
  //= even if its program has nothing to send
  switch (set_up_.agreement().rtr) {
    case mpa::kRtrZeroFpdu:
      empty_fpdu_due_ = true;
      return;
    case mpa::kRtrWrite:
      qp_->SendRtr(rdmap::Rtr::kWrite);
      return;
    case mpa::kRtrRead:
      qp_->SendRtr(rdmap::Rtr::kRead);
      return;
    default:
      return;
  }
}

bool Endpoint::BeginFpdus() {
  const mpa::Agreement& agreement = set_up_.agreement();
  // Messages that are not divided must fit into a segment.
  if (mpa::Mulpdu(tcp_.mss(), agreement.send_markers) < ddp::kMinMulpdu) {
    Fail(Failure::kProtocol);
    return false;
  }
  // The program may have given the queue pair up meanwhile.
  if (qp_->state() == QpState::kErr) {
    Fail(Failure::kAborted);
    return false;
  }
  send_start_ = tcp_first_ + set_up_.frame_bytes();
  delimiter_.emplace(PeerFraming(), pools_.pieces, pools_.frames);
  rdmap::Config config = qp_config_;
  config.ird = agreement.ird;
  config.ord = agreement.ord;
  if (tcp_.peer_is_urnic()) config.immediate = rdmap::ImmediateData::kMerged;
  qp_->Modify(QpState::kRts, config);
  phase_ = Phase::kRunning;
  return true;
}

mpa::DelimiterConfig Endpoint::PeerFraming() const {
  const mpa::Agreement& agreement = set_up_.agreement();
  return {.crc = agreement.crc,
          .markers = agreement.receive_markers,
          .early = agreement.peer_aligned      ? mpa::Early::kPromised
                   : agreement.receive_markers ? mpa::Early::kMarked
                                               : mpa::Early::kNone,
          .start = peer_start_};
}

void Endpoint::OnFirstFpdu() {
  MUTATION_SKIPS(iwarp_responder_never_speaks)
  set_up_.OnFirstFpdu();
  if (std::exchange(connected_, true)) return;
  Report(Event::kConnected);
}

// --- Sending -----------------------------------------------------------------

uint32_t Endpoint::Transmit(Time now, std::span<tcp::TcpSlot> slots) {
  now_ = now;
  starved_ = false;
  slots =
      slots.first(std::min<size_t>(slots.size(), tcp::Connection::kMaxBurst));
  struct NoSink {};
  NoSink none;
  Upper<NoSink> upper{*this, none};
  const uint32_t made = tcp_.Transmit(now, slots, upper);
  drained_ = made < slots.size();
  retry_at_ = starved_ ? now + kKeepRetry : Time::Infinite();
  Follow();
  return made;
}

tcp::Chunk Endpoint::NextChunk(uint32_t max_bytes) {
  tcp::Chunk chunk;
  if (set_up_.unsent_bytes() != 0) {
    // Before its SYN, it was unknown whether the peer is a uRNIC.
    if (!tcp_.peer_is_urnic()) set_up_.WithdrawPromise();
    uint32_t offset = 0;
    chunk.bytes = set_up_.Cut(max_bytes, offset);
    chunk.source = kOwnSource + offset;
  } else if (empty_fpdu_due_ && !held_back()) {
    empty_fpdu_due_ = false;
    chunk = {kEmptyFpdu, ShapeAt(cut_, 0).wire_bytes()};
  } else if (MayCut()) {
    chunk = CutFpdu(max_bytes);
  }
  cut_ = cut_ + chunk.bytes;
  return chunk;
}

tcp::Chunk Endpoint::CutFpdu(uint32_t max_bytes) {
  const uint32_t mulpdu =
      mpa::Mulpdu(max_bytes, set_up_.agreement().send_markers);
  const bool can_keep = kept_.has_room();
  const ddp::Cut cut = qp_->NextCut(mulpdu, can_keep);
  if (cut.ulpdu_bytes == 0) {
    starved_ = !can_keep && kept_.empty() && qp_->HasWork();
    return {};
  }
  uint32_t bytes = ShapeAt(cut_, cut.ulpdu_bytes).wire_bytes();
  const bool shares =
      cut.keep == ddp::Keep::kMay || cut.keep == ddp::Keep::kShared;
  const uint32_t others = shares ? CutSmall(bytes, max_bytes) : 0;
  bytes += others;
  const bool keeps =
      cut.keep == ddp::Keep::kShared ? others != 0 : cut.keep != ddp::Keep::kNo;
  if (keeps) kept_.Add(cut_, cut.source, bytes);
  return {cut.source, bytes};
}

// Cuts the small messages that are posted behind one of `used` bytes, and fit
// into a segment with it. Returns their bytes.
uint32_t Endpoint::CutSmall(uint32_t used, uint32_t max_bytes) {
  const bool markers = set_up_.agreement().send_markers;
  uint32_t bytes = 0;
  while (true) {
    const uint32_t at = used + bytes;
    const uint32_t mulpdu = mpa::Mulpdu(max_bytes - at, markers);
    if (mulpdu < ddp::kMinMulpdu) return bytes;
    const ddp::Cut cut = qp_->NextSmallCut(mulpdu);
    if (cut.ulpdu_bytes == 0) return bytes;
    bytes += ShapeAt(cut_ + at, cut.ulpdu_bytes).wire_bytes();
  }
}

void Endpoint::OnChunkAcked(uint64_t source) {
  kept_.OnAcked(source);
  if (source < kOwnSource && qp_ != nullptr) qp_->OnAcked(source);
}

// The position of an FPDU in the stream determines the places of its markers,
// also when it is built again.
mpa::FpduShape Endpoint::ShapeAt(SeqNum begin, uint32_t ulpdu_bytes) const {
  const auto distance =
      static_cast<uint32_t>(begin - MUTATION(iwarp_counts_markers_from_frame,
                                             send_start_, tcp_first_));
  return {.ulpdu_bytes = ulpdu_bytes,
          .phase = distance % wire::kMarkerSpacing,
          .markers = set_up_.agreement().send_markers};
}

bool Endpoint::LoseStream() {
  Abort(now_);
  return false;
}

// --- Receiving ---------------------------------------------------------------

void Endpoint::NoteMessage(const mpa::Ulpdu& ulpdu) {
  wire::DdpControl control;
  if (ulpdu.head.size() < sizeof(control)) return;
  std::memcpy(&control, ulpdu.head.data(), sizeof(control));
  const bool whole = !in_message_ && control.last();
  in_message_ = !control.last();
  if (in_message_) return;
  using enum wire::RdmapOpcode;
  const auto opcode = static_cast<wire::RdmapOpcode>(control.opcode());
  switch (opcode) {
    case kReadRequest:
    case kReadResponse:
    case kAtomicRequest:
    case kAtomicResponse:
      return;
    default:
      break;
  }
  // A uRNIC keeps small sends and completes them when it has sent them. So an
  // answer of our program may carry the acknowledgement.
  if (opcode != kWrite && whole && tcp_.peer_is_urnic() &&
      ulpdu.bytes <= qp_config_.keep_bytes + sizeof(wire::DdpUntagged) &&
      ++small_messages_ % kSmallPerAck != 0) {
    return;
  }
  tcp_.AckNow();
}

//= RFC 5044 8: errors of MPA are reported by a Terminate of layer LLP
void Endpoint::TerminateFor(mpa::MpaError error) {
  qp_->Terminate(
      {ddp::kMpaLayer, ddp::kLocalType, static_cast<uint8_t>(error)});
}

// --- Timers and ends ---------------------------------------------------------

Time Endpoint::deadline() const {
  if (phase_ == Phase::kClosed) return Time::Infinite();
  const Time set_up =
      phase_ == Phase::kClosing ? Time::Infinite() : set_up_.NextDeadline();
  return std::min({tcp_.deadline(), set_up, retry_at_, hold_until_});
}

void Endpoint::OnTimer(Time now) {
  Wake(now);
  retry_at_ = Time::Infinite();
  if (now >= hold_until_) hold_until_ = Time::Infinite();
  if (phase_ != Phase::kClosing && now >= set_up_.NextDeadline()) {
    set_up_.OnTimer(now);
    FollowSetUp();
  }
  if (now >= tcp_.deadline()) tcp_.OnTimer(now);
  Follow();
}

void Endpoint::Follow() {
  if (phase_ == Phase::kRunning && qp_->state() == QpState::kErr) {
    // While the responder may not send, it cannot send a Terminate either.
    if (qp_->ends_stream() || !set_up_.may_send()) EndStream();
  }
  MUTATION_SKIPS(iwarp_ignores_end_of_peer)
  if (tcp_.ended() == tcp::End::kNone && tcp_.peer_closed()) OnPeerClosed();
  MUTATION_SKIPS(iwarp_never_closes)
  if (std::exchange(close_due_, false)) tcp_.Close();
  if (std::exchange(abort_due_, false)) tcp_.Abort();
  if (tcp_.ended() != tcp::End::kNone && phase_ != Phase::kClosed) {
    OnTcpEnded();
  }
}

void Endpoint::OnPeerClosed() {
  switch (phase_) {
    case Phase::kSetUp:
      set_up_.OnClosed();
      FollowSetUp();
      return;
    case Phase::kRunning:
      //= RFC 5044 8: a connection that is closed within an FPDU has lost data
      if (delimiter_->mid_fpdu()) Blame(Failure::kReset);
      qp_->Abort();
      EndStream();
      return;
    default:
      close_due_ = true;
  }
}

void Endpoint::OnTcpEnded() {
  kept_.Clear();
  drained_ = false;
  Blame(FailureOf(tcp_.ended()));
  if (phase_ == Phase::kSetUp && tcp_.ended() == tcp::End::kReset) {
    // A responder of revision 1 may answer like this.
    set_up_.OnClosed();
    FollowSetUp();
  }
  if (phase_ == Phase::kSetUp) Fail(failure_);
  if (phase_ == Phase::kRunning) {
    qp_->Abort();
    EndStream();
  }
  phase_ = Phase::kClosed;
}

void Endpoint::EndStream() {
  ReportEnd(connected_ ? Event::kDisconnected : Event::kFailed);
  StartClosing();
}

void Endpoint::Fail(Failure failure) {
  Blame(failure);
  if (set_up_.initiates() || request_reported_) ReportEnd(Event::kFailed);
  if (phase_ == Phase::kRunning) qp_->Abort();
  phase_ = Phase::kClosing;
  hold_until_ = Time::Infinite();
  abort_due_ = true;
  drained_ = false;
}

void Endpoint::StartClosing() {
  phase_ = Phase::kClosing;
  hold_until_ = Time::Infinite();
  close_due_ = true;
  drained_ = false;
}

}  // namespace urnic::iwarp
