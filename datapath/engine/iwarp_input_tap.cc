#include "datapath/engine/iwarp_input_tap.h"

#include <algorithm>
#include <cstring>

#include "transport/base/mutation.h"
#include "transport/iwarp/ddp/received_segment.h"
#include "transport/iwarp/qp/image.h"
#include "transport/iwarp/rdmap/image.h"

namespace urnic {

IwarpInputTap::IwarpInputTap(std::shared_ptr<InputLog> log, rdmap::Qp* qp)
    : InputTap(std::move(log), &qp->requester().sq(), &qp->requester().mrs()),
      qp_(*qp) {}

// --- Segments of the log -----------------------------------------------------

void IwarpInputTap::Begin(iwarp::Endpoint* endpoint,
                          const tcp::FourTuple& tuple, Time now) {
  endpoint_ = endpoint;
  tuple_ = tuple;
  in_burst_ = false;
  StopSegment();
  BeginCall(now);
}

void IwarpInputTap::Part() {
  if (endpoint_ == nullptr) return;  // Accept() has failed
  Call(iwarp::Input::kParted);
  endpoint_ = nullptr;
  End();
}

void IwarpInputTap::BeginCall(Time now) {
  now_ = now;
  SetNow(now);
  // An image cannot express that a timer is overdue.
  const bool can =
      !in_burst_ && (endpoint_ == nullptr || endpoint_->deadline() >= now);
  if (IsTimeForSegment() && can) BeginSegment();
  Prepare();
}

void IwarpInputTap::BeginSegment() {
  StartSegment(iwarp::kInputLayout);
  const rdmap::Requester& requester = qp_.requester();
  const RecvQueue& receives = qp_.responder().recv_queue();
  iwarp::BeginNow begin;
  begin.call = call_now();
  // Includes the request that is being cut into segments.
  begin.sq_end = requester.next() + (Producer() != requester.next() ? 1 : 0);
  if (!receives.shared()) begin.receive_head = receives.ring()->head();
  if (endpoint_ != nullptr) {
    begin.kept_limit = endpoint_->kept_limit();
    begin.tuple = tuple_;
  }
  AddImage(BodyOf(begin), [&](std::span<uint8_t> to) {
    return endpoint_ != nullptr
               ? iwarp::ExtractImage(*endpoint_, tuple_, now_, to)
               : rdmap::ExtractImage(qp_, now_, to);
  });
  for (const urnic_sge& sge : receives.current()) NoteKey(MrKey{sge.lkey});
  qp_.responder().VisitKeys([&](MrKey key) { NoteKey(key); });
  BeginRequests(begin.sq_end);
  pools_known_ = false;
  EndBeginning();
}

// --- What calls read ---------------------------------------------------------

void IwarpInputTap::Prepare() {
  completed_ = 0;
  has_receives_ = false;
  last_receive_ = UINT32_MAX;
  AddPools();
  AddChangedKeys();
  // In ERR all posted requests are flushed. Otherwise calls only look whether
  // there is more to send.
  if (qp_.state() == QpState::kErr) return AddRequests(Producer());
  AddRequestsFor(0);
}

void IwarpInputTap::AddPools() {
  if (endpoint_ == nullptr) return;
  refused_ = endpoint_->pools().segments->refused();
  const iwarp::PoolsNow now(*endpoint_, now_);
  if (std::exchange(pools_known_, true) &&
      MUTATION(device_inputs_forget_pools, now == pools_, true))
    return;
  Add(iwarp::Input::kPools, {.body = BodyOf(now)});
}

void IwarpInputTap::NoteUlpdu(ddp::Pieces pieces) {
  ddp::ReceivedSegment segment;
  if (ddp::ParseSegment(pieces, segment)) return;
  NoteKey(MrKey{segment.stag});
  if (segment.tagged()) return;
  if (segment.queue == wire::kSendQueue) return NoteReceive(segment.msn);
  // The keys of a read or atomic request. If it is neither, other bytes are not
  // found as keys.
  uint8_t payload[sizeof(wire::RdmapAtomicRequest)] = {};
  segment.CopyPayload(
      payload, std::min<uint32_t>(sizeof(payload), segment.payload_bytes));
  wire::RdmapReadRequest read;
  std::memcpy(&read, payload, sizeof(read));
  NoteKey(MrKey{read.source_stag.value()});
  wire::RdmapAtomicRequest atomic;
  std::memcpy(&atomic, payload, sizeof(atomic));
  NoteKey(MrKey{atomic.stag.value()});
}

void IwarpInputTap::NoteReceive(uint32_t msn) {
  const RecvQueue& queue = qp_.responder().recv_queue();
  const RecvRing* const ring = queue.ring();
  const uint32_t ahead = msn - qp_.recv_msn();
  if (ring == nullptr || (queue.taken() && ahead == 0)) return;
  if (!std::exchange(has_receives_, true)) {
    receives_at_ = ring->head();
    BeginReceives();
  }
  const uint32_t behind = ahead - (queue.taken() ? 1 : 0);
  const uint32_t place = ring->head() - receives_at_ + behind;
  if (std::exchange(last_receive_, place) == place) return;
  MUTATION_SKIPS(device_inputs_forget_receives)
  (void)AddReceive(*ring, behind, place);
}

// --- Results of calls --------------------------------------------------------

void IwarpInputTap::EndWith(ResultNow result) {
  // The requests that the call has begun, and the next one, which it has seen.
  const rdmap::Requester& requester = qp_.requester();
  AddRequests(requester.head());
  AddRequests(requester.next());
  if (requester.posted() != requester.next()) AddRequests(requester.next() + 1);
  if (endpoint_ != nullptr) {
    if (endpoint_->pools().segments->refused() != refused_)
      result.flags |= ResultNow::kNoRecords;
    pools_ = iwarp::PoolsNow(*endpoint_, now_);
  }
  EndCall(result);
}

FlowResult IwarpInputTap::End(const FlowResult& result) {
  EndWith(ResultNow(result));
  return result;
}

void IwarpInputTap::End(bool returned) {
  ResultNow result(FlowResult{.state = qp_.state()});
  if (returned) result.flags |= ResultNow::kReturned;
  EndWith(result);
}

// --- Calls -------------------------------------------------------------------

void IwarpInputTap::BeginSegmentCall(const wire::TcpSegment& segment,
                                     Time now) {
  BeginCall(now);
  in_burst_ = true;
  iwarp::SegmentNow body;
  body.call = call_now();
  const uint32_t bytes = wire::WriteTcpHeader(segment, body.header);
  Call(iwarp::Input::kSegment,
       {.small = static_cast<uint8_t>(segment.congestion_experienced ? 1 : 0),
        .large = bytes},
       body, segment.payload);
}

void IwarpInputTap::EndSegmentCall(RxVerdict verdict) {
  Add(WorkInput::kVerdict, {.small = static_cast<uint8_t>(verdict)});
  End();
}

bool IwarpInputTap::only_ack_waits() {
  Prepare();
  Call(iwarp::Input::kOnlyAckWaits);
  const bool waits = endpoint_->only_ack_waits();
  End(waits);
  return waits;
}

uint32_t IwarpInputTap::Transmit(Time now, std::span<tcp::TcpSlot> slots) {
  // Small messages share a segment.
  constexpr uint32_t kMessagesEach = 8;
  BeginCall(now);
  const auto room = static_cast<uint32_t>(slots.size());
  AddRequestsFor(room * kMessagesEach);
  Call(iwarp::Input::kTransmit, 0, room);
  const uint32_t count = endpoint_->Transmit(now, slots);
  for (const tcp::TcpSlot& slot : slots.first(count)) {
    iwarp::SentNow sent = {.source = slot.source, .offset = slot.offset};
    sent.header_bytes = wire::WriteTcpHeader(slot.fields, sent.header);
    Add(iwarp::Input::kSent, {.small = static_cast<uint8_t>(slot.ect ? 1 : 0),
                              .large = slot.bytes,
                              .body = BodyOf(sent)});
  }
  End();
  written_ = 0;
  return count;
}

bool IwarpInputTap::WritePayload(const tcp::TcpSlot& slot,
                                 std::span<uint8_t> out,
                                 const ReadMemory& read) {
  Prepare();
  Call(iwarp::Input::kWrite, {.medium = written_++}, call_now());
  uint32_t reads = 0;
  const bool made = endpoint_->WritePayload(
      slot, out, [&](uint64_t address, std::span<uint8_t> to) {
        ++reads;
        if (read(address, to)) return true;
        Add(iwarp::Input::kNoMemory, {.large = reads});
        return false;
      });
  if (made) {
    const uint32_t head = iwarp::HeadBytes(*endpoint_, slot, out);
    Add(iwarp::Input::kHead, {.body = out.first(head)});
  }
  End(made);
  return made;
}

void IwarpInputTap::OnTimer(Time now) {
  BeginCall(now);
  Call(iwarp::Input::kTimer);
  endpoint_->OnTimer(now);
  End();
}

void IwarpInputTap::OnOutage(Time now) {
  BeginCall(now);
  Call(iwarp::Input::kOutage);
  endpoint_->OnOutage(now);
  End();
}

void IwarpInputTap::OnTooBig(uint32_t mtu, SeqNum quoted, Time now) {
  BeginCall(now);
  const iwarp::QuotedNow body = {call_now(), quoted.value()};
  Call(iwarp::Input::kTooBig, {.large = mtu}, body);
  endpoint_->OnTooBig(mtu, quoted, now);
  End();
}

void IwarpInputTap::OnLinkMtu(uint32_t mtu, Time now) {
  BeginCall(now);
  Call(iwarp::Input::kLinkMtu, 0, mtu);
  endpoint_->OnLinkMtu(mtu, now);
  End();
}

void IwarpInputTap::Disconnect(Time now) {
  BeginCall(now);
  Call(iwarp::Input::kDisconnect);
  endpoint_->Disconnect(now);
  End();
}

void IwarpInputTap::Abort(Time now) {
  BeginCall(now);
  Call(iwarp::Input::kAbort);
  endpoint_->Abort(now);
  End();
}

void IwarpInputTap::Detach(Time now) {
  BeginCall(now);
  Call(iwarp::Input::kDetach);
  endpoint_->Detach(now);
  End();
}

iwarp::Event IwarpInputTap::TakeEvent() {
  const iwarp::Event event = endpoint_->TakeEvent();
  if (event == iwarp::Event::kNone) return event;
  Prepare();
  Call(iwarp::Input::kTakeEvent, static_cast<uint8_t>(event));
  End();
  return event;
}

void IwarpInputTap::Modify(QpState target) {
  Prepare();
  // RESET and ERR discard all posted requests.
  AddRequests(Producer());
  Call(iwarp::Input::kModify, static_cast<uint8_t>(target));
  qp_.Modify(target, {});
  if (target == QpState::kReset) ForgetRequests();
  End();
}

}  // namespace urnic
