#pragma once

// Takes received TCP frames, finds the connection of each, and passes the
// segments of a burst to it. Consecutive segments of one connection are settled
// together. Token holder only; inline, for the loop that includes it.

#include <span>
#include <utility>

#include "datapath/engine/connection_table.h"
#include "datapath/engine/flow_scheduler.h"
#include "datapath/engine/flow_sink.h"
#include "datapath/engine/iwarp_connection.h"
#include "datapath/engine/network.h"
#include "datapath/engine/shared_receive_queue.h"
#include "datapath/engine/traced_sink.h"
#include "transport/base/mutation.h"
#include "transport/wire/frame.h"
#include "transport/wire/tcp.h"

namespace urnic {

class IwarpReceiver {
 public:
  // Both outlive the receiver.
  IwarpReceiver(FlowScheduler* flows, TracedSink* sink)
      : flows_(flows), sink_(sink) {}
  IwarpReceiver(const IwarpReceiver&) = delete;
  IwarpReceiver& operator=(const IwarpReceiver&) = delete;

  // Null: iWARP is not served, or no longer.
  void Serve(const Network* network, ConnectionTable* connections) {
    network_ = network;
    connections_ = connections;
  }
  bool serves() const { return connections_ != nullptr; }

  // Takes a frame for which ParseFrame() has returned kTcp, and which lives
  // until Finish(). `checksum_verified`: see wire::ParseTcp(). `Sink`: that of
  // the burst. REQUIRES: serves()
  template <typename Sink>
  void OnFrame(const wire::FrameView& view, const ReceivedFrame& frame,
               bool checksum_verified, Time now) {
    if constexpr (Sink::kTraces) segment_ = {};  // parsing may fail
    const RxVerdict verdict = Take<Sink>(view, frame, checksum_verified, now);
    sink_->FlowSink::Count(verdict);
    if constexpr (Sink::kTraces)
      sink_->OnSegment(QpOfSegment(), segment_,
                       *static_cast<const rte_mbuf*>(frame.buffer), verdict);
  }

  // Executes the effects of the connection's segments so far. Call this before
  // another flow uses the sink, and at the end of the burst.
  template <typename Sink>
  void Finish(Time now) {
    if (__builtin_expect(current_ == nullptr, 1)) return;
    IwarpConnection& connection = *std::exchange(current_, nullptr);
    const FlowResult result =
        MUTATION(device_settles_no_burst, connection.FinishBurst<Sink>(*sink_),
                 connection.Settle(*sink_));
    const IwarpQp* const qp = connection.qp();
    if (qp != nullptr && qp->srq != nullptr) qp->srq->ReportLimit();
    // An answer shows that the neighbour receives our packets.
    if (result.answered && connection.path().adjacency != nullptr) {
      connection.path().adjacency->Confirm(now);
    }
    flows_->Apply(connection, result);
  }

 private:
  // The queue pair of the last segment; null: none.
  const IwarpQp* QpOfSegment() const {
    const bool is_current = current_ != nullptr &&
                            current_->tuple().local_port == segment_.dst_port &&
                            current_->tuple().remote_port == segment_.src_port;
    return is_current ? current_->qp() : nullptr;
  }
  template <typename Sink>
  RxVerdict Take(const wire::FrameView& view, const ReceivedFrame& frame,
                 bool checksum_verified, Time now) {
    const net::Host& host = network_->host();
    if (!host.IsOurVlan(view)) return RxVerdict::kForeignVlan;
    // A port may also receive frames for the kernel's MAC, and the kernel may
    // have the same IP address: a RST of ours would end the kernel's
    // connection.
    if (!host.IsLocal(view.dst) || view.eth->dst != host.mac()) {
      return RxVerdict::kNotForUs;
    }
    wire::TcpSegment& segment = segment_;
    RxVerdict verdict = wire::ParseTcp(view, checksum_verified, segment);
    if (verdict != RxVerdict::kAccept) {
      if (verdict == RxVerdict::kTcpUnfinished) {
        network_->TellOfUnfinishedChecksum(view.src);
      }
      return verdict;
    }
    if (__builtin_expect(segment.congestion_experienced, 0)) sink_->CountMark();
    const tcp::FourTuple tuple = {.local = view.dst,
                                  .remote = view.src,
                                  .local_port = segment.dst_port,
                                  .remote_port = segment.src_port};
    IwarpConnection* connection =
        current_ != nullptr && current_->tuple() == tuple
            ? current_
            : connections_->Find(tuple);
    if (connection == nullptr) {
      connection = connections_->OnStray(tuple, segment, view, now, verdict);
      if (connection == nullptr) return verdict;
    }
    if (MUTATION(device_takes_segments_of_others, connection != current_,
                 current_ == nullptr)) {
      Finish<Sink>(now);
      current_ = connection;
      sink_->Begin();
    }
    verdict = connection->OnSegment<Sink>(segment, frame, now, *sink_);
    if (__builtin_expect(verdict == RxVerdict::kTcp, 0)) {
      connections_->Reset(*connection, segment);
    }
    return verdict;
  }

  FlowScheduler* const flows_;
  TracedSink* const sink_;
  const Network* network_ = nullptr;
  ConnectionTable* connections_ = nullptr;
  IwarpConnection* current_ = nullptr;  // its burst is not finished
  wire::TcpSegment segment_;  // of this frame: construction takes time
};

}  // namespace urnic
