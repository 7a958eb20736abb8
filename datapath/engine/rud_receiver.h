#pragma once

// Handles RUD packets that arrive: finds the window and the peer of each, and
// gives each window its packets of a burst together. Token holder only. Except
// for the check whether there are packets, the code is in a file of its own.
// When it was in the engine's loop, GCC inlined less of RoCE, and each write
// took 32 instructions more.

#include <rte_mbuf.h>

#include <memory>
#include <span>

#include "datapath/engine/flow_scheduler.h"
#include "datapath/engine/network.h"
#include "datapath/engine/rud_window.h"
#include "datapath/engine/traced_sink.h"
#include "transport/wire/rud.h"

namespace urnic {

class RudReceiver {
 public:
  // Both outlive the receiver.
  RudReceiver(FlowScheduler* flows, TracedSink* sink)
      : flows_(flows), sink_(sink) {}
  RudReceiver(const RudReceiver&) = delete;
  RudReceiver& operator=(const RudReceiver&) = delete;

  void Serve(Network* network) { network_ = network; }

  // A frame for which ParseFrame() has returned kRud. It must stay valid until
  // Finish().
  template <typename Sink>
  void OnFrame(const wire::FrameView& view, rte_mbuf* frame);

  // The last fragment of a packet that is now complete.
  template <typename Sink>
  [[gnu::cold]] void OnFragments(const wire::FrameView& last, rte_mbuf* frame);

  // Executes the effects of the packets so far. Call this before another flow
  // uses the sink, and at the end of the burst.
  template <typename Sink>
  void Finish() {
    if (__builtin_expect(count_ != 0, 0)) FinishBurst<Sink>();
  }

 private:
  template <typename Sink>
  void FinishBurst();
  RxVerdict Take(const wire::FrameView& view, rud::RxPacket& packet,
                 RudWindow*& window);
  // Adds packets_[count_] to the packets of this window.
  template <typename Sink>
  void Add(RudWindow* window, rte_mbuf* frame);
  // Adds packets_[count_] to the packets of each member of its group.
  template <typename Sink>
  [[gnu::cold]] RxVerdict OnGroup(const wire::FrameView& view, rte_mbuf* frame);

  FlowScheduler* const flows_;
  TracedSink* const sink_;
  Network* network_ = nullptr;
  RudWindow* window_ = nullptr;  // of the packets below
  uint32_t count_ = 0;
  // The last place is for a packet that turns out to be for another window.
  rud::RxPacket packets_[rud::kBurstMax + 1];
  // A packet has one, or, with a list, one per write.
  Placement placements_[4 * rud::kBurstMax];
  rte_mbuf* frames_[rud::kBurstMax];
  // Room for a packet that came in fragments.
  const std::unique_ptr<uint8_t[]> datagram_ =
      std::make_unique_for_overwrite<uint8_t[]>(wire::kRoceMaxBytes);
};

}  // namespace urnic
