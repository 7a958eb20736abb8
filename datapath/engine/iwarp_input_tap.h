#pragma once

// The tap of a queue pair of iWARP and its connection (input_tap.h,
// transport/iwarp/qp/inputs.h). It has the functions of iwarp::Endpoint and of
// rdmap::Qp.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "datapath/engine/input_tap.h"
#include "transport/iwarp/qp/endpoint.h"
#include "transport/iwarp/qp/inputs.h"
#include "transport/iwarp/rdmap/qp.h"
#include "transport/iwarp/tcp/four_tuple.h"

namespace urnic {

class IwarpInputTap final : public InputTap {
 public:
  // `qp` outlives the tap. Call Begin() next.
  IwarpInputTap(std::shared_ptr<InputLog> log, rdmap::Qp* qp);

  // The queue pair has this connection now, or none (null). The connection
  // outlives Part(). The log continues with an image of both, as soon as one
  // can be made.
  void Begin(iwarp::Endpoint* endpoint, const tcp::FourTuple& tuple, Time now);
  // The queue pair has no connection any more.
  void Part();

  // --- Calls of the endpoint -------------------------------------------------

  template <typename Sink>
  RxVerdict OnSegment(const wire::TcpSegment& segment,
                      const ReceivedFrame& frame, Time now, Sink& sink) {
    BeginSegmentCall(segment, now);
    SegmentSink<Sink> tapped{sink, *this};
    const RxVerdict verdict = endpoint_->OnSegment(segment, frame, now, tapped);
    EndSegmentCall(verdict);
    return verdict;
  }
  void OnPlacementFault(const Placement& placement,
                        std::span<RecvCompletion> completions) {
    AddFault(placement);
    endpoint_->OnPlacementFault(placement, completions);
  }
  template <typename Writer>
  void Deliver(std::span<const RecvCompletion> receives, Writer& writer) {
    Add(iwarp::Input::kDeliver, {.large = completed_});
    auto tapped = Tapped(writer);
    endpoint_->Deliver(receives, tapped);
  }
  template <typename Writer>
  FlowResult Settle(std::span<const RecvCompletion> receives, Writer& writer) {
    AddOriginals();
    in_burst_ = false;
    Prepare();
    Call(iwarp::Input::kSettle);
    auto tapped = Tapped(writer);
    return End(endpoint_->Settle(receives, tapped));
  }
  bool only_ack_waits();
  uint32_t Transmit(Time now, std::span<tcp::TcpSlot> slots);
  using ReadMemory = std::function<bool(uint64_t, std::span<uint8_t>)>;
  [[nodiscard]] bool WritePayload(const tcp::TcpSlot& slot,
                                  std::span<uint8_t> out,
                                  const ReadMemory& read);
  void OnTimer(Time now);
  void OnOutage(Time now);
  void OnTooBig(uint32_t mtu, SeqNum quoted, Time now);
  void OnLinkMtu(uint32_t mtu, Time now);
  void Disconnect(Time now);
  void Abort(Time now);
  void Detach(Time now);
  iwarp::Event TakeEvent();

  // --- Calls of the core -----------------------------------------------------

  void Modify(QpState target);
  template <typename Writer>
  FlowResult SettleQp(Writer& writer) {
    Prepare();
    Call(iwarp::Input::kSettleQp);
    auto tapped = Tapped(writer);
    return End(qp_.Settle({}, tapped));
  }

 private:
  template <typename Sink>
  struct SegmentSink {
    void OnUlpdu(ddp::Pieces pieces) { tap.NoteUlpdu(pieces); }
    void Place(const Placement& placement) {
      tap.NotePlacement(placement);
      sink.Place(placement);
    }
    void Complete(const RecvCompletion& done) {
      sink.Complete(done);
      ++tap.completed_;
    }
    Sink& sink;
    IwarpInputTap& tap;
  };

  SendAt send_at() const override {
    return {qp_.requester().head(), qp_.requester().next()};
  }
  // Comes before each call with a time: begins a segment of the log, if it is
  // time for one.
  void BeginCall(Time now);
  // Comes before each call: logs what others have changed since the last one.
  void Prepare();
  void AddPools();
  void BeginSegment();
  void BeginSegmentCall(const wire::TcpSegment& segment, Time now);
  void EndSegmentCall(RxVerdict verdict);
  // Log the keys and the receive that the queue pair will look up for a ULPDU.
  void NoteUlpdu(ddp::Pieces pieces);
  void NoteReceive(uint32_t msn);
  FlowResult End(const FlowResult& result);
  void End(bool returned = false);
  void EndWith(ResultNow result);

  rdmap::Qp& qp_;
  iwarp::Endpoint* endpoint_ = nullptr;
  tcp::FourTuple tuple_;
  Time now_;
  bool in_burst_ = false;
  iwarp::PoolsNow pools_;     // as the last call left them
  bool pools_known_ = false;  // the segment of the log has them
  uint64_t refused_ = 0;      // records of segments, before the call
  uint16_t written_ = 0;      // segments of the last Transmit()
  // Of the current call.
  uint32_t completed_ = 0;  // receives
  bool has_receives_ = false;
  uint32_t receives_at_ = 0;  // the ring's head before them
  uint32_t last_receive_ = UINT32_MAX;
};

}  // namespace urnic
