#pragma once

// The receiving half of a window: data for memory and for the receive FIFO, and
// state requests. docs/design/0014-rud.md ("Receiving") lists the rules in
// order.
//
// Thread: the holder of the engine's token.

#include <cstdint>
#include <span>
#include <utility>

#include "ras/metrics/rx_verdict.h"
#include "transport/rud/conditions.h"
#include "transport/rud/context_pool.h"
#include "transport/rud/notifier.h"
#include "transport/rud/receive_fifo.h"
#include "transport/rud/tce_tables.h"
#include "transport/rud/types.h"
#include "transport/work/types.h"

namespace urnic::rud {

class Target {
 public:
  // All outlive the target.
  Target(const WindowConfig& config, ContextPool* contexts,
         const TceTables* tces, ReceiveFifo* fifo, Notifier* notifier,
         Conditions* conditions)
      : config_(config),
        contexts_(*contexts),
        tces_(*tces),
        fifo_(*fifo),
        notifier_(*notifier),
        conditions_(*conditions) {}

  // Data of a write, or of a read of the owner. `index`: that of the packet in
  // the burst. Calls `place(Placement)` for a payload that may be placed, with
  // the number of the context as the origin; for a list, once per write.
  template <typename Place>
  RxVerdict OnData(const RxPacket& packet, uint8_t index, Place&& place) {
    placement_count_ = 0;
    const RxVerdict verdict = TakeData(packet);
    if (verdict != RxVerdict::kAccept || placement_count_ == 0) return verdict;
    tids_[index] = packet.transfer().tid.value();
    for (Placement& placement : std::span(placements_, placement_count_)) {
      placement.packet = index;
      place(placement);
    }
    return verdict;
  }
  // A packet for the receive FIFO.
  RxVerdict OnPacket(const RxPacket& packet);
  RxVerdict OnStateRequest(const RxPacket& packet);

  // The memory of a placement is not mapped: ends its transfer.
  void OnPlacementFault(const Placement& placement);
  // All placements of the burst are in memory: sends the notifications of the
  // transfers that are complete.
  void FinishBurst();

  // A packet had the wrong key for a TCE: the window must fail (document C).
  bool failed() const { return failed_; }
  // See Window.
  bool TakeBegun() { return std::exchange(begun_, false); }

 private:
  // Fills placements_.
  RxVerdict TakeData(const RxPacket& packet);
  RxVerdict PushData(const RxPacket& packet);
  // Adds the packet to the FIFO. `entry` has the fields that depend on its
  // type.
  RxVerdict Push(urnic_rud_receive entry, const RxPacket& packet);
  // The context to which a packet refers. Null: the packet is dropped.
  Context* FindContext(const RxPacket& packet, RxVerdict& verdict);
  static bool IsOfRead(const Context& context, const RxPacket& packet);
  // Handles a tid that is not older than that of the context: begins a transfer
  // or another attempt, or answers one that has ended.
  RxVerdict Follow(Context& context, const RxPacket& packet);
  RxVerdict Translate(Context& context, const RxPacket& packet);
  RxVerdict TranslateList(Context& context, const RxPacket& packet);
  RxVerdict Translate(Context& context, Pvo pvo, const uint8_t* from,
                      uint32_t bytes);
  void Touch(Context& context);

  const WindowConfig& config_;
  ContextPool& contexts_;
  const TceTables& tces_;
  ReceiveFifo& fifo_;
  Notifier& notifier_;
  Conditions& conditions_;
  bool failed_ = false;
  bool begun_ = false;
  uint32_t touched_count_ = 0;
  uint32_t touched_[kBurstMax];
  uint64_t tids_[kBurstMax] = {};  // of packets with placements
  // Those of one packet.
  uint32_t placement_count_ = 0;
  Placement placements_[wire::kRudMaxWrites];
};

}  // namespace urnic::rud
