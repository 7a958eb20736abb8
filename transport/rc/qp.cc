#include "transport/rc/qp.h"

#include <algorithm>

#include "transport/base/check.h"

namespace urnic::rc {
namespace {

// How many packets the peer can hold behind a gap.
constexpr uint32_t kWindowMost = kHoldSpan - 1;

}  // namespace

void Qp::Modify(QpState target, const QpConfig& config) {
  switch (target) {
    case QpState::kReset: {
      responder_.Stop();
      responder_.recv_queue().Reset();
      // Posted requests are dropped without completions.
      const uint32_t posted = send_.sq.Posted(send_.head);
      if (posted != UINT32_MAX) send_.head += posted;
      send_.sq.PublishConsumer(send_.published = send_.head);
      send_.una = send_.next = send_.assigned = send_.posted = send_.head;
      send_.running = send_.draining = send_.failed = send_.flushing = false;
      send_.rnr_waiting = send_.pace_waiting = send_.silent = false;
      send_.granted = 0;
      send_.current_index_valid = false;
      send_.any_executed = false;
      send_.una_psn = send_.tx_psn = send_.sent_psn = send_.next_psn = Psn();
      send_.reads_in_flight = send_.unacked_since_request = 0;
      send_.StopTimer();
      send_.EndRecovery();
      send_.probe = Probe::kNone;
      event_ = QpEvent::kNone;
      break;
    }
    case QpState::kInit:
      break;
    case QpState::kRtr:
      responder_.Start(config);
      break;
    case QpState::kRts:
      if (state_ == QpState::kRtr) {
        send_.una_psn = send_.tx_psn = send_.acked_end = config.sq_psn;
        send_.sent_psn = send_.next_psn = config.sq_psn;
        StartPath(config);
        send_.pacer = cc::Pacer();
        send_.pacer.SetRate(config.bits_per_second);
        send_.timer = cc::RoundTripTimer<Psn>();
        send_.timer.resent_end = config.sq_psn;
        send_.retries_left = config.retry_count;
        send_.rnr_retries_left = config.rnr_retry;
        send_.lost_response_seen = false;
        send_.repair = Repair::kNone;
        send_.nak_doubt = 0;
        send_.marked = send_.peer_repeats_parts = false;
      }
      send_.draining = false;
      send_.running = true;
      break;
    case QpState::kSqd:
      //= IBTA 10.3.1.5: in SQD, requests that have begun are finished, and no
      //= other request begins
      send_.draining = true;
      send_.drain_limit = send_.assigned;
      drain_reported_ = false;
      break;
    case QpState::kErr:
      EnterError();
      break;
    case QpState::kSqe:
      URNIC_CHECK(false);  // not a state of RC
  }
  send_.config = config;
  responder_.Reconfigure(config);
  state_ = target;
}

// The first queue pair of a path starts it. Others may need more.
void Qp::StartPath(const QpConfig& config) {
  URNIC_CHECK(send_.path != nullptr);
  const uint32_t quiet =
      std::min({std::max(config.window_bytes / config.mtu, 2u),
                std::max(config.window_packets, 1u), kWindowMost});
  const uint32_t most = config.longer_windows ? kWindowMost : quiet;
  const uint32_t packet_bytes = kMaxHeaderBytes + config.mtu;
  if (send_.path->started()) {
    send_.path->cc.Widen(quiet, most, packet_bytes);
  } else {
    send_.path->cc.Start(quiet, most, packet_bytes);
  }
}

void Qp::Reconfigure(const QpConfig& config) {
  send_.config = config;
  responder_.Reconfigure(config);
}

//= RFC 3168 5: a packet marked CE makes its sender reduce its window
// A requester sets the rate of its reads. An acknowledgement has no data.
void Qp::OnMarked(const RxPacket& packet, Time now) {
  if (packet.info->request()) {
    responder_.OnMarked(now);
  } else if (packet.info->kind == wire::PacketKind::kReadResponse) {
    send_.marked = true;
  }
}

void Qp::EnterError() {
  state_ = QpState::kErr;
  completer().EnterError();
  // After a fatal NAK the responder already refuses everything, and still owes
  // that NAK.
  if (!responder_.failed()) responder_.Stop();
}

void Qp::EndIfRefused() {
  if (responder_.failed() && state_ != QpState::kErr) EnterError();
}

void Qp::EndIfFailed() {
  // PollSend() reports the error itself, after the earlier placements.
  if (send_.una == send_.failed_index && !responder_.failed()) {
    responder_.Stop();
  }
}

void Qp::CheckInvariants() const {
  const SendState& s = send_;
  auto ahead = [](uint32_t a, uint32_t b) {
    return static_cast<int32_t>(a - b);
  };
  URNIC_CHECK(ahead(s.una, s.head) >= 0);
  URNIC_CHECK(ahead(s.next, s.una) >= 0);
  URNIC_CHECK(ahead(s.assigned, s.next) >= 0);
  URNIC_CHECK(ahead(s.posted, s.assigned) >= 0);
  URNIC_CHECK(s.tx_psn - s.una_psn >= 0);
  URNIC_CHECK(s.sent_psn - s.tx_psn >= 0);
  if (s.running && !s.failed && s.next == s.assigned) {
    URNIC_CHECK(s.tx_psn == s.next_psn && s.sent_psn == s.next_psn);
  }
  URNIC_CHECK(s.reads_in_flight <= s.config.max_rd_atomic);
  URNIC_CHECK(s.charged == 0 || s.path != nullptr);
  uint32_t reads = 0;
  for (uint32_t i = s.una; i != s.assigned; ++i) {
    reads += s.RecordOf(i).reads_in_flight;
  }
  URNIC_CHECK(reads == s.reads_in_flight);
}

}  // namespace urnic::rc
