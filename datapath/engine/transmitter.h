#pragma once

// Lets flows transmit in turn, as long as there is room for their frames. Token
// holder only; inline, for the loop that includes it.

#include <algorithm>
#include <cstdint>
#include <span>

#include "datapath/engine/flow_scheduler.h"
#include "datapath/engine/flow_sink.h"
#include "datapath/engine/iwarp_sender.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_of.h"
#include "datapath/engine/roce_qp.h"
#include "datapath/engine/roce_sender.h"
#include "datapath/engine/rud_sender.h"
#include "datapath/engine/traced_sink.h"
#include "datapath/engine/transmit_queue.h"
#include "datapath/engine/witness.h"
#include "datapath/memory/address_space.h"
#include "ras/metrics/counters.h"
#include "transport/base/mutation.h"

namespace urnic {

class Transmitter {
 public:
  // All outlive the transmitter.
  Transmitter(TransmitQueue* tx, FlowScheduler* flows, TracedSink* sink,
              AddressSpace* memory, EngineCounters* counters, Witness witness)
      : tx_(tx),
        flows_(flows),
        sink_(sink),
        roce_(tx, memory, counters, witness),
        iwarp_(tx, memory, counters),
        rud_(tx, memory, counters) {}
  Transmitter(const Transmitter&) = delete;
  Transmitter& operator=(const Transmitter&) = delete;

  // Call this before anything else. The network outlives all use of this
  // object.
  void Serve(Network* network) {
    roce_.Serve(network);
    rud_.Serve(network);
  }

  // Transmits up to one burst. `acks_wait`: flows that have only an
  // acknowledgement to send are passed over.
  void TransmitReady(Time now, bool acks_wait) {
    if (__builtin_expect(sink_->hot(), 0)) {
      TransmitTraced(now, acks_wait);
    } else {
      TransmitBurst<FlowSink>(now, acks_wait);
    }
  }
  // At the end of the last TransmitReady(..., true): the flows that are ready
  // have only acknowledgements to send.
  bool only_acks_left() const { return only_acks_left_; }
  // The flow has nothing to send but an acknowledgement that may wait.
  static bool OnlyAckWaits(Flow& flow) {
    if (flow.is_roce_qp()) return flow.only_ack_waits();
    return flow.kind() == Flow::Kind::kConnection &&
           static_cast<IwarpConnection&>(flow).only_ack_waits();
  }

  // Call this before a queue pair stops answering: sends the responses that it
  // owes, as many as the port accepts. Otherwise a peer that waits for its last
  // acknowledgement would retry until it fails.
  void SendOwed(RoceQp& qp) {
    if (!qp.OwesResponses() || !tx_->HasEmptyFrame()) return;
    if (sink_->hot()) {
      SendOwedWith<TracedSink>(qp);
    } else {
      SendOwedWith<FlowSink>(qp);
    }
  }

 private:
  void TransmitTraced(Time now, bool acks_wait);  // traced_loops.cc
  template <typename Sink>
  void SendOwedWith(RoceQp& qp) {
    tx_->Flush();
    // The responses queue behind frames that the port has not accepted yet, if
    // there is room.
    const uint32_t room = std::min(tx_->room(), tx_->empty_frames());
    Sink& sink = *sink_;
    roce_.Send(qp, qp.TransmitResponses(roce_.Slots(qp, room)), sink);
    flows_->Apply(qp, qp.Settle(sink));
    tx_->Flush();
  }
  template <typename Sink>
  void TransmitBurst(Time now, bool acks_wait) {
    // Frames that the port has not accepted yet go first.
    if (!tx_->Flush()) return TransmitToOurselves<Sink>(now);
    ReadyList<Flow>& ready = flows_->ready();
    ReadyList<Flow> passed_over;
    bool others_left = false;
    uint32_t room = tx_->burst();
    // Without an empty frame a queue pair stays in the ready list.
    while (!ready.empty() && room != 0 && tx_->HasEmptyFrame()) {
      Flow& flow = ready.Pop();
      if (__builtin_expect(!flow.is_roce_qp(), 0)) {
        const bool only_ack = OnlyAckWaits(flow);
        if ((acks_wait && only_ack) || IsBlocked(flow)) {
          others_left |= !only_ack;
          ready.PassOver(flow, passed_over);
        } else {
          room -= TransmitOther<Sink>(flow, now,
                                      std::min(room, tx_->empty_frames()));
        }
        continue;
      }
      RoceQp& qp = RoceQp::Of(flow);
      // A loopback packet waits until the next iteration has made room.
      if ((acks_wait && qp.only_ack_waits()) || roce_.IsBlocked(qp)) {
        others_left |= !qp.only_ack_waits();
        MUTATION_SKIPS(engine_forgets_deferred_acks)
        ready.PassOver(qp, passed_over);
        continue;
      }
      room -= Transmit<Sink>(qp, now, std::min(room, tx_->empty_frames()));
    }
    only_acks_left_ = ready.empty() && !others_left;
    ready.Restore(passed_over);
    tx_->Flush();
    // Refill now, when everything is sent, rather than before the next frame.
    tx_->TopUp();
  }

  // Transmits up to `room` frames; returns how many.
  template <typename Sink>
  uint32_t Transmit(RoceQp& qp, Time now, uint32_t room) {
    const std::span<TxSlot> slots = roce_.Slots(qp, room);
    const uint32_t count =
        CallQp(qp, [&](auto& q) { return q.Transmit(now, slots); });
    Sink& sink = *sink_;
    const uint32_t built = roce_.Send(qp, count, sink);
    FlowResult result = CallQp(qp, [&](auto& q) { return q.Settle(sink); });
    // A queue pair with work but nothing to send waits for a response, which
    // makes it ready again.
    if (count == 0) result.has_work = false;
    flows_->Apply(qp, result);
    return built;
  }

  bool IsBlocked(const Flow& flow) const {
    return flow.kind() == Flow::Kind::kRudWindow ? rud_.IsBlocked()
                                                 : iwarp_.IsBlocked(flow);
  }

  template <typename Sink>
  [[gnu::noinline]] uint32_t TransmitOther(Flow& flow, Time now,
                                           uint32_t room) {
    Sink& sink = *sink_;
    uint32_t count = 0;
    if (flow.kind() == Flow::Kind::kRudWindow) {
      auto& window = static_cast<RudWindow&>(flow);
      if (window.state() >= QpState::kRts) {
        count = rud_.Send(window, room, sink);
      }
    } else if (flow.kind() == Flow::Kind::kConnection) {
      auto& connection = static_cast<IwarpConnection&>(flow);
      count = iwarp_.Send(connection, now, room, sink);
    } else {
      return 0;
    }
    flows_->Apply(flow, flow.Settle(sink));
    return count;
  }

  // Used while the port accepts nothing, because its peer has stopped fetching,
  // perhaps forever. Loopback flows must continue then.
  template <typename Sink>
  [[gnu::cold]] void TransmitToOurselves(Time now) {
    ReadyList<Flow>& ready = flows_->ready();
    // Only some flows per call: each iteration comes here, and thousands may
    // wait for the port. These go to the end of the list.
    for (uint32_t i = 0; i < kBurstMax && !ready.empty(); ++i) {
      Flow& flow = ready.Pop();
      const net::Path* const path = flow.common_path();
      const bool can_go = path != nullptr && path->loopback &&
                          tx_->loop_room() != 0 && tx_->HasEmptyFrame();
      if (!can_go) {
        ready.Push(flow);
      } else if (flow.is_roce_qp()) {
        Transmit<Sink>(RoceQp::Of(flow), now, tx_->empty_frames());
      } else {
        TransmitOther<Sink>(flow, now, tx_->empty_frames());
      }
    }
  }

  TransmitQueue* const tx_;
  FlowScheduler* const flows_;
  TracedSink* const sink_;
  bool only_acks_left_ = false;
  RoceSender roce_;
  IwarpSender iwarp_;
  RudSender rud_;
};

}  // namespace urnic
