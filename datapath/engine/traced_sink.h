#pragma once

// The engine's sink. While a trace (ras/trace) or a capture (ras/capture) is
// active, a burst uses it as a TracedSink, and otherwise as a FlowSink. The
// receiver and the transmitter are compiled once for each type, and choose once
// for each burst. So an inactive trace costs nothing.
//
// Token holder only.

#include <rte_mbuf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "datapath/engine/engine_qp.h"
#include "datapath/engine/flow_sink.h"
#include "ras/capture/capture.h"
#include "ras/metrics/rx_verdict.h"
#include "ras/trace/trace.h"
#include "transport/iwarp/tcp/slot.h"
#include "transport/wire/tcp.h"
#include "transport/work/types.h"

namespace urnic {

class TracedSink final : public FlowSink {
 public:
  static constexpr bool kTraces = true;

  // As FlowSink; `trace` and `capture` outlive the sink.
  TracedSink(CompletionWriter* completions, AddressSpace* memory,
             EngineCounters* counters, Failures* failures, const Time* now,
             Witness witness, Trace* trace, Capture* capture)
      : FlowSink(completions, memory, counters, failures, now, witness),
        trace_(*trace),
        capture_(*capture) {}

  // Whether a trace or capture is active for the next burst.
  bool hot() const { return trace_.levels().hot() || capture_.active(); }

  // --- The functions of FlowSink, with a record ------------------------------

  void Count(RxVerdict verdict) {
    FlowSink::Count(verdict);
    if (packets_.empty()) return;
    const RxPacket& packet = packets_.front();
    packets_ = packets_.subspan(1);
    trace_.Add(TracePoint::kPacketReceived, {.qpn = qpn_},
               {packet.bth->opcode, packet.psn().value(), packet.payload_bytes,
                static_cast<uint64_t>(verdict)});
    if (!were_captured_)
      CaptureReceived(qpn_, verdict, *static_cast<rte_mbuf*>(packet.buffer));
  }
  void BeginDue(const EngineQp& qp, uint32_t count) {
    FlowSink::BeginDue(qp, count);
    OnBurst(qp, due().first(count));
    were_captured_ = true;  // when they arrived
  }
  void WriteSent(const EngineQp& qp, const SendCompletion& done) {
    FlowSink::WriteSent(qp, done);
    OnCompleted(TracePoint::kSendCompleted, qp, done);
  }
  void WriteReceived(const EngineQp& qp, CompletionQueue& cq,
                     const RecvCompletion& done) {
    FlowSink::WriteReceived(qp, cq, done);
    OnCompleted(TracePoint::kReceiveCompleted, qp, done);
  }

  // --- For the receiver and the transmitter ----------------------------------

  // The queue pair gets these packets. A verdict on each follows, in order.
  void OnBurst(const EngineQp& qp, std::span<const RxPacket> packets) {
    qpn_ = qp.qpn();
    packets_ = packets;
    were_captured_ = false;
  }
  void OnSent(const EngineQp& qp, const TxSlot& slot, const rte_mbuf& frame) {
    const auto& bth = *reinterpret_cast<const wire::Bth*>(slot.headers);
    trace_.Add(TracePoint::kPacketSent, SubjectOf(qp),
               {bth.opcode, bth.psn().value(), slot.payload_bytes});
    OnFrameSent(SubjectOf(qp), frame);
  }
  // `qp`: null if the connection has none.
  void OnSent(const EngineQp* qp, const tcp::TcpSlot& slot,
              const rte_mbuf& frame) {
    trace_.Add(TracePoint::kSegmentSent, OfSegment(qp),
               {slot.fields.seq.value(), slot.fields.ack.value(), slot.bytes});
    OnFrameSent(OfSegment(qp), frame);
  }
  // The beginning or the end of a burst.
  void OnBurstEdge(TracePoint point, uint32_t count) {
    trace_.Add(point, {}, {count});
  }
  void OnReceived(const rte_mbuf& frame) {
    OnData(TracePoint::kFrameReceived, {}, BytesOf(frame));
  }
  // No queue pair gets this frame.
  void OnNotSteered(RxVerdict verdict, const rte_mbuf& frame) {
    trace_.Add(TracePoint::kFrameNotSteered, {},
               {static_cast<uint64_t>(verdict), frame.data_len});
    CaptureReceived(0, verdict, frame);
  }
  // `qp`: null if the segment belongs to none.
  void OnSegment(const EngineQp* qp, const wire::TcpSegment& segment,
                 const rte_mbuf& frame, RxVerdict verdict) {
    trace_.Add(TracePoint::kSegmentReceived, OfSegment(qp),
               {segment.seq.value(), segment.ack.value(),
                segment.payload.size(), static_cast<uint64_t>(verdict)});
    CaptureReceived(qp == nullptr ? 0 : qp->qpn(), verdict, frame);
  }
  void OnRudPacket(const EngineQp& window, RxVerdict verdict,
                   const rte_mbuf& frame) {
    CaptureReceived(window.qpn(), verdict, frame);
  }
  void OnRudSent(const EngineQp& window, const rte_mbuf& frame) {
    OnFrameSent({.qpn = window.qpn()}, frame);
  }

 private:
  // Of a segment of TCP.
  static TraceSubject OfSegment(const EngineQp* qp) {
    return {.qpn = qp == nullptr ? 0 : qp->qpn(), .iwarp = true};
  }
  static std::span<const uint8_t> BytesOf(const rte_mbuf& frame) {
    return {rte_pktmbuf_mtod(&frame, const uint8_t*), frame.data_len};
  }

  // Traces a completion without an error. FlowSink traces those with one.
  template <typename Completion>
  void OnCompleted(TracePoint point, const EngineQp& qp,
                   const Completion& done) {
    if (done.status != URNIC_WC_SUCCESS) return;
    trace_.Add(point, SubjectOf(qp),
               {done.wr_id, done.status, done.opcode, done.byte_len});
  }
  void CaptureReceived(uint32_t qpn, RxVerdict verdict, const rte_mbuf& frame) {
    if (!capture_.active()) return;
    capture_.Add(/*outbound=*/false, qpn,
                 kRxVerdictNames[static_cast<size_t>(verdict)], BytesOf(frame));
  }
  void OnFrameSent(TraceSubject subject, const rte_mbuf& frame) {
    OnData(TracePoint::kFrameSent, subject, BytesOf(frame));
    if (capture_.active())
      capture_.Add(/*outbound=*/true, subject.qpn, nullptr, BytesOf(frame));
  }

  // Traces the first bytes of a frame, in the order of the wire.
  void OnData(TracePoint point, TraceSubject subject,
              std::span<const uint8_t> frame) {
    if (!trace_.levels().Wants(point)) return;
    constexpr size_t kStep = 3 * sizeof(uint64_t);
    constexpr size_t kMost = 4 * kStep;
    for (size_t at = 0; at < std::min(frame.size(), kMost); at += kStep) {
      uint64_t words[3] = {};
      std::memcpy(words, &frame[at], std::min(kStep, frame.size() - at));
      for (uint64_t& word : words) word = __builtin_bswap64(word);
      trace_.Add(point, subject, {at, words[0], words[1], words[2]});
    }
  }

  Trace& trace_;
  Capture& capture_;
  uint32_t qpn_ = 0;
  std::span<const RxPacket> packets_;  // those without a verdict yet
  bool were_captured_ = false;
};

}  // namespace urnic
