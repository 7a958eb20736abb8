#pragma once

// Receives bursts of frames, from the port and from loopback. It steers each
// frame, and passes consecutive packets of one queue pair to it together. Token
// holder only; inline, for the loop that includes it.

#include <rte_mbuf.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "datapath/engine/burst_limit.h"
#include "datapath/engine/flow_scheduler.h"
#include "datapath/engine/flow_sink.h"
#include "datapath/engine/iwarp_receiver.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_of.h"
#include "datapath/engine/roce_qp.h"
#include "datapath/engine/rud_receiver.h"
#include "datapath/engine/shared_receive_queue.h"
#include "datapath/engine/steering.h"
#include "datapath/engine/traced_sink.h"
#include "datapath/engine/transmit_queue.h"
#include "datapath/engine/witness.h"
#include "datapath/port/port.h"
#include "datapath/port/tcp_checksum.h"
#include "ras/metrics/counters.h"
#include "transport/net/pkeys.h"

namespace urnic {

class Receiver {
 public:
  // All outlive the receiver. Loopback frames come from `tx`.
  Receiver(Port* port, TransmitQueue* tx, FlowScheduler* flows,
           TracedSink* sink, EngineCounters* counters, Witness witness)
      : port_(port),
        tx_(tx),
        flows_(flows),
        sink_(sink),
        counters_(counters),
        witness_(witness),
        steering_(counters),
        iwarp_(flows, sink),
        rud_(flows, sink) {}
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  // Call this before anything else. The network outlives all use of this
  // object.
  void Serve(Network* network) {
    steering_.Serve(network);
    rud_.Serve(network);
  }
  // From now on TCP segments go to these connections; null: to none.
  void ServeTcp(const Network* network, ConnectionTable* connections) {
    iwarp_.Serve(network, connections);
    steering_.LeaveTcp(connections != nullptr);
  }

  // Receives one burst from loopback and one from the port (BurstLimit). True
  // if there was a frame. If the port had frames, sets `now` to `clock()`.
  template <typename Clock>
  bool Receive(Time& now, Clock&& clock) {
    bool worked = false;
    FreeReceived();
    if (tx_->looped() != 0) {
      const uint32_t count = tx_->TakeLooped(frames_, kBurstMax);
      counters_->loopback_packets += count;
      ProcessFrames(count, now);
      FreeReceived();
      worked = true;
    }
    const uint32_t count = port_->Receive(frames_, limit_.frames());
    if (count == 0) return worked;
    // Time has passed since `now`: this thread has sent, or another one ran on
    // its CPU. With the old time round trips would look too short, and the
    // shortest is remembered.
    now = clock();
    ProcessFrames(count, now);
    return true;
  }

  // Frees processed frames, except those in custody (FrameCustody). Called
  // before the next burst is received, not on the way to an answer, and at the
  // end.
  void FreeReceived() {
    if (count_ == 0) return;
    tx_->Recycle(frames_, count_);
    count_ = 0;
  }

 private:
  // Consecutive packets of one queue pair in one burst.
  struct Run {
    RoceQp* qp = nullptr;
    uint32_t count = 0;
    RxPacket packets[kBurstMax];
  };

  // Processes the first `count` frames of frames_.
  void ProcessFrames(uint32_t count, Time now) {
    if (__builtin_expect(sink_->hot(), 0)) {
      ProcessTraced(count, now);
    } else {
      Process<FlowSink>(count, now);
    }
  }
  void ProcessTraced(uint32_t count, Time now);  // traced_loops.cc
  template <typename Sink>
  void Process(uint32_t count, Time now) {
    rte_mbuf** const frames = frames_;
    count_ = count;
    counters_->rx_packets += count;
    for (uint32_t i = 0; i < count; ++i) {
      const uint8_t* data = rte_pktmbuf_mtod(frames[i], const uint8_t*);
      __builtin_prefetch(data);
      __builtin_prefetch(data + 64);
    }
    limit_.Learn(frames[0]->data_len, frames[count - 1]->data_len);
    steering_.Prefetch({frames, count});
    SteeredPacket steered;  // construction takes time
    for (uint32_t i = 0; i < count; ++i) {
      const RxVerdict verdict = steering_.Steer(frames[i], now, steered);
      if constexpr (Sink::kTraces) sink_->OnReceived(*frames[i]);
      if (__builtin_expect(verdict != RxVerdict::kAccept, 0)) {
        if (verdict == RxVerdict::kTcp && iwarp_.serves()) {
          iwarp_.OnFrame<Sink>(steering_.view(), FrameOf(frames[i]),
                               TcpChecksumIsVouchedFor(*frames[i]), now);
          continue;
        }
        if (verdict == RxVerdict::kRud) {
          iwarp_.Finish<Sink>(now);
          rud_.OnFrame<Sink>(steering_.view(), frames[i]);
          continue;
        }
        ++counters_->verdicts[static_cast<size_t>(verdict)];
        if (verdict == RxVerdict::kRudFragments) {
          iwarp_.Finish<Sink>(now);
          rud_.OnFragments<Sink>(steering_.view(), frames[i]);
          continue;
        }
        if constexpr (Sink::kTraces) sink_->OnNotSteered(verdict, *frames[i]);
        if (verdict == RxVerdict::kMulticast)
          DeliverToGroup<Sink>(steered, now);
        continue;
      }
      if (steered.qp != run_.qp) FinishRun<Sink>(now);
      AddToRun(*steered.qp, steered.packet);
      if (EndsRun(steered.packet)) FinishRun<Sink>(now);
    }
    FinishRun<Sink>(now);
  }

  // Delivers a datagram to each member of its group.
  template <typename Sink>
  [[gnu::cold]] void DeliverToGroup(const SteeredPacket& steered, Time now) {
    const RxPacket& packet = steered.packet;
    for (RoceQp* qp : steered.members) {
      // A sender does not receive its own datagram.
      if (steered.from_us && packet.deth().src_qp().value == qp->qpn()) {
        continue;
      }
      if (!net::PkeyMatches(packet.bth->pkey.value(), qp->pkey())) {
        ++counters_->verdicts[static_cast<size_t>(RxVerdict::kBadPkey)];
        continue;
      }
      FinishRun<Sink>(now);
      AddToRun(*qp, packet);
    }
    FinishRun<Sink>(now);
  }

  static ReceivedFrame FrameOf(rte_mbuf* mbuf) {
    return {{rte_pktmbuf_mtod(mbuf, const uint8_t*), mbuf->data_len}, mbuf};
  }

  void AddToRun(RoceQp& qp, const RxPacket& packet) {
    run_.qp = &qp;
    run_.packets[run_.count++] = packet;
  }

  template <typename Sink>
  void FinishRun(Time now) {
    iwarp_.Finish<Sink>(now);
    rud_.Finish<Sink>();
    if (run_.count == 0) return;
    RoceQp& qp = *run_.qp;
    const std::span<const RxPacket> packets(run_.packets, run_.count);
    qp.packets_received += run_.count;
    sink_->Begin();
    witness_.OnBurst(qp, packets);
    Sink& sink = *sink_;
    if constexpr (Sink::kTraces) sink.OnBurst(qp, packets);
    const FlowResult result =
        CallQp(qp, [&](auto& q) { return q.OnBurst(packets, now, sink); });
    witness_.OnBurstDone();
    if (qp.srq != nullptr) qp.srq->ReportLimit();
    if (__builtin_expect(qp.service() == QpService::kXrcTarget, 0)) {
      for (const RxPacket& packet : packets) {
        RecvRing* ring = packet.xrc_ring;
        if (ring != nullptr) SharedReceiveQueue::Of(*ring).ReportLimit();
      }
    }
    // An answer shows that the neighbour receives our packets, so it need not
    // be probed.
    if (result.answered && qp.path.adjacency != nullptr) {
      qp.path.adjacency->Confirm(now);
    }
    run_.count = 0;
    run_.qp = nullptr;
    flows_->Apply(qp, result);
  }

  Port* const port_;
  TransmitQueue* const tx_;
  FlowScheduler* const flows_;
  TracedSink* const sink_;
  EngineCounters* const counters_;
  [[no_unique_address]] const Witness witness_;
  Steering steering_;
  IwarpReceiver iwarp_;
  RudReceiver rud_;
  BurstLimit limit_;
  Run run_;
  rte_mbuf* frames_[kBurstMax];
  uint32_t count_ = 0;  // of frames_: processed, not freed yet
};

}  // namespace urnic
