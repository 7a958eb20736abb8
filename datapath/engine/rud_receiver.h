#pragma once

// Packets of RUD that arrive: finds their window and their sender, and gives
// the window those of a burst together. Token holder only. All but a look at
// whether there are packets is in a file of its own: with it in the loop's, GCC
// inlined less of RoCE, which took 32 instructions more for each write.

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

  // A frame that ParseFrame() has called kRud. It lives until Finish().
  template <typename Sink>
  void OnFrame(const wire::FrameView& view, rte_mbuf* frame);

  // The last frame of a packet that came in fragments.
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
  // Adds packets_[count_], which is for this window.
  template <typename Sink>
  void Add(RudWindow* window, rte_mbuf* frame);
  // Adds packets_[count_] for each member of its group that takes it.
  template <typename Sink>
  [[gnu::cold]] RxVerdict OnGroup(const wire::FrameView& view, rte_mbuf* frame);

  FlowScheduler* const flows_;
  TracedSink* const sink_;
  Network* network_ = nullptr;
  RudWindow* window_ = nullptr;  // of the packets
  uint32_t count_ = 0;
  // The last place is for a packet that turns out to be of another window.
  rud::RxPacket packets_[rud::kBurstMax + 1];
  // A packet has one, or as many as its list has writes.
  Placement placements_[4 * rud::kBurstMax];
  rte_mbuf* frames_[rud::kBurstMax];
  // A packet that came in fragments.
  const std::unique_ptr<uint8_t[]> datagram_ =
      std::make_unique_for_overwrite<uint8_t[]>(wire::kRoceMaxBytes);
};

}  // namespace urnic
