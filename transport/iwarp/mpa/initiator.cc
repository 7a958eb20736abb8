#include "transport/base/check.h"
#include "transport/iwarp/mpa/depths.h"
#include "transport/iwarp/mpa/negotiation.h"

namespace urnic::mpa {

Initiator::Initiator(const SetupOptions& options)
    : options_(options), reader_(SetupKind::kReply, options.promise) {
  URNIC_CHECK((options.revision == 1 || options.revision == 2) &&
              options.ird < kNotNegotiated && options.ord < kNotNegotiated &&
              options.max_ird < kNotNegotiated);
}

uint32_t Initiator::Start(std::span<const uint8_t> private_data, Time now,
                          std::span<uint8_t> to) {
  URNIC_CHECK(state_ == State::kIdle);
  state_ = State::kWaiting;
  deadline_ = now + options_.timeout;
  SetupFrame request{.kind = SetupKind::kRequest,
                     .revision = options_.revision,
                     .markers = options_.markers,
                     .crc = options_.crc,
                     .promise = options_.promise,
                     .private_data = private_data};
  if (options_.revision >= 2) {
    request.enhanced = EnhancedOf(options_.ird, options_.ord,
                                  options_.peer_to_peer, options_.rtr_kinds);
  }
  return request.Write(to);
}

uint32_t Initiator::WithdrawPromise(std::span<uint8_t> request) {
  URNIC_CHECK(state_ == State::kWaiting && options_.promise);
  options_.promise = false;
  reader_ = SetupReader(SetupKind::kReply, false);
  return RemovePromise(request);
}

Initiator::Taken Initiator::OnBytes(std::span<const uint8_t> bytes) {
  if (state_ != State::kWaiting) return {};
  Taken taken{.bytes = reader_.Add(bytes)};
  switch (reader_.state()) {
    case SetupReader::State::kMore:
      return taken;
    case SetupReader::State::kComplete:
      taken.verdict = OnReply(reader_.frame());
      return taken;
    //= RFC 5044 7.1.2: an initiator that receives a request in place of a reply
    //= closes the connection
    case SetupReader::State::kWrongKind:
    case SetupReader::State::kMalformed:
      break;
  }
  End(State::kFailed, MpaError::kBadFrame);
  return {.bytes = taken.bytes, .verdict = RxVerdict::kMpaBadFrame};
}

RxVerdict Initiator::OnReply(const SetupFrame& reply) {
  //= RFC 6581 10: a peer that knows only revision 1 replies or rejects with
  //= revision 1
  const bool older = reply.revision == 1 && options_.revision == 2;
  if (!older && reply.revision != options_.revision) {
    End(State::kFailed, MpaError::kBadFrame);
    return RxVerdict::kMpaBadFrame;
  }
  if (reply.reject) {
    End(older ? State::kRetryRevision1 : State::kRejected, MpaError::kNone);
    return RxVerdict::kAccept;
  }
  agreement_ = {.revision = reply.revision,
                //= RFC 5044 7.1.1: CRCs are used if either side asks for them
                .crc = options_.crc || reply.crc,
                //= RFC 5044 7.1.1: a side that wants to receive markers sets
                //= bit M
                .send_markers = reply.markers,
                .receive_markers = options_.markers,
                .ird = options_.ird,
                .ord = options_.ord,
                .peer_aligned = reply.promise};
  End(State::kAgreed, MpaError::kNone);
  if (reply.enhanced.has_value()) Agree(*reply.enhanced);
  return RxVerdict::kAccept;
}

void Initiator::Agree(const wire::MpaEnhanced& theirs) {
  agreement_.depths_agreed =
      theirs.ird() != kNotNegotiated || theirs.ord() != kNotNegotiated;
  agreement_.ord = OrdFor(options_.ord, theirs.ird());
  agreement_.ird = IrdFor(options_, theirs.ord());
  //= RFC 6581 9.1: if the responder's ORD is above the initiator's IRD, the
  //= initiator ends the connection
  if (theirs.ord() != kNotNegotiated && theirs.ord() > agreement_.ird) {
    return End(State::kTerminate, MpaError::kInsufficientIrd);
  }
  if (!options_.peer_to_peer) return;
  agreement_.rtr =
      Choose(ReceivableRtr(RtrOf(theirs) & options_.rtr_kinds, theirs.ird()));
  //= RFC 6581 9.2: if no kind of RTR suits both sides, the initiator ends the
  //= connection
  if (agreement_.rtr == kRtrNone) {
    End(State::kTerminate, MpaError::kNoMatchingRtr);
  }
}

void Initiator::OnClosed() {
  if (state_ != State::kWaiting) return;
  // A responder of revision 1 closes TCP when it sees a later revision.
  if (options_.revision > 1) return End(State::kRetryRevision1, {});
  End(State::kFailed, MpaError::kConnectionLost);
}

void Initiator::OnTimer(Time now) {
  //= RFC 5044 7.1.2: each side limits the time that it waits for the peer's
  //= frame
  if (now >= deadline_) End(State::kFailed, MpaError::kNone);
}

void Initiator::End(State state, MpaError error) {
  state_ = state;
  error_ = error;
  deadline_ = Time::Infinite();
}

}  // namespace urnic::mpa
