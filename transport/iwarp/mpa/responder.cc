#include "transport/base/check.h"
#include "transport/iwarp/mpa/depths.h"
#include "transport/iwarp/mpa/negotiation.h"

namespace urnic::mpa {

Responder::Responder(const SetupOptions& options, Time now)
    : options_(options),
      deadline_(now + options.timeout),
      reader_(SetupKind::kRequest, options.promise) {
  URNIC_CHECK((options.revision == 1 || options.revision == 2) &&
              options.max_ird < kNotNegotiated);
  URNIC_CHECK(options.ird < kNotNegotiated && options.ord < kNotNegotiated);
}

Responder::Taken Responder::OnBytes(std::span<const uint8_t> bytes) {
  if (state_ != State::kWaiting && state_ != State::kRequested) return {};
  Taken taken{.bytes = reader_.Add(bytes)};
  const bool complete = reader_.state() == SetupReader::State::kComplete;
  //= RFC 5044 7.1.2: the initiator sends no FPDU before it has the reply
  const bool excess = taken.bytes < bytes.size();
  if (reader_.state() == SetupReader::State::kMore) return taken;
  //= RFC 5044 7.1.1: a revision that is not supported closes the connection
  if (!complete || excess || request().revision == 0 ||
      request().revision > options_.revision) {
    End(State::kFailed, MpaError::kBadFrame);
    taken.verdict = RxVerdict::kMpaBadFrame;
    return taken;
  }
  End(State::kRequested, MpaError::kNone);
  return taken;
}

void Responder::SetDepths(uint16_t ird, uint16_t ord) {
  URNIC_CHECK(state_ == State::kRequested && ird < kNotNegotiated &&
              ord < kNotNegotiated);
  options_.ird = ird;
  options_.ord = ord;
}

Agreement Responder::Proposed() const {
  URNIC_CHECK(state_ == State::kRequested);
  const SetupFrame& theirs = request();
  Agreement agreement{.revision = theirs.revision,
                      //= RFC 5044 7.1.1: CRCs are used if either side asks for
                      //= them
                      .crc = options_.crc || theirs.crc,
                      //= RFC 5044 7.1.1: a side that wants to receive markers
                      //= sets bit M
                      .send_markers = theirs.markers,
                      .receive_markers = options_.markers,
                      .ird = options_.ird,
                      .ord = options_.ord,
                      .peer_aligned = theirs.promise};
  if (!theirs.enhanced.has_value()) return agreement;
  const wire::MpaEnhanced& data = *theirs.enhanced;
  agreement.depths_agreed =
      data.ird() != kNotNegotiated || data.ord() != kNotNegotiated;
  agreement.ord = OrdFor(options_.ord, data.ird());
  agreement.ird = IrdFor(options_, data.ord());
  agreement.rtr =
      Choose(ReceivableRtr(RtrOf(data) & options_.rtr_kinds, agreement.ird));
  return agreement;
}

SetupFrame Responder::ReplyOf(const Agreement& agreement) const {
  const SetupFrame& theirs = request();
  SetupFrame reply{.kind = SetupKind::kReply,
                   //= RFC 6581 10: the reply has the revision of the request
                   .revision = theirs.revision,
                   .markers = options_.markers,
                   .crc = agreement.crc,
                   // An initiator that made none looks for none.
                   .promise = theirs.promise};
  if (!theirs.enhanced.has_value()) return reply;
  const wire::MpaEnhanced& data = *theirs.enhanced;
  //= RFC 6581 9.2: the reply names one kind of RTR, or all kinds that the
  //= responder has if none suits both
  const RtrKinds kinds =
      agreement.rtr != kRtrNone ? agreement.rtr : options_.rtr_kinds;
  reply.enhanced =
      EnhancedOf(data.ord() == kNotNegotiated ? kNotNegotiated : agreement.ird,
                 data.ird() == kNotNegotiated ? kNotNegotiated : agreement.ord,
                 IsPeerToPeer(data), kinds);
  return reply;
}

uint32_t Responder::Accept(std::span<const uint8_t> private_data, Time now,
                           std::span<uint8_t> to) {
  agreement_ = Proposed();
  SetupFrame reply = ReplyOf(agreement_);
  reply.private_data = private_data;
  End(State::kAccepted, MpaError::kNone);
  // Without RTR, the initiator sends when its program has something to send.
  if (agreement_.rtr != kRtrNone) deadline_ = now + options_.timeout;
  return reply.Write(to);
}

uint32_t Responder::Reject(std::span<const uint8_t> private_data,
                           std::span<uint8_t> to) {
  SetupFrame reply = ReplyOf(Proposed());
  reply.private_data = private_data;
  reply.reject = true;
  End(State::kRejected, MpaError::kNone);
  return reply.Write(to);
}

void Responder::OnFirstFpdu() {
  //= RFC 5044 7.1.2: the responder may send once the first FPDU of the
  //= initiator has arrived
  if (state_ == State::kAccepted) End(State::kRunning, MpaError::kNone);
}

void Responder::OnClosed() {
  if (state_ == State::kWaiting || state_ == State::kRequested ||
      state_ == State::kAccepted) {
    End(State::kFailed, MpaError::kConnectionLost);
  }
}

void Responder::OnTimer(Time now) {
  //= RFC 5044 7.1.2: each side limits the time that it waits for the peer's
  //= frame
  if (now >= deadline_) End(State::kFailed, MpaError::kNone);
}

void Responder::End(State state, MpaError error) {
  state_ = state;
  error_ = error;
  deadline_ = Time::Infinite();
}

}  // namespace urnic::mpa
