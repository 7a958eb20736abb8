#pragma once

// The receiving half of a window: what arrives for its contexts, its memory and
// its receive FIFO. docs/design/0014-rud.md ("Receiving") has the rules in
// their order.
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

  // Data of a write, or of a read that the owner has asked for. A payload that
  // may be placed is given to `place(Placement)`, with the context's number as
  // the origin; a list of writes as many times as it has writes.
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

  // The memory of a placement is not there: the transfer has ended.
  void OnPlacementFault(const Placement& placement);
  // All placements of the burst are in memory: tells of the transfers that are
  // complete.
  void FinishBurst();

  // A key of a TCE was wrong: the window fails (document C).
  bool failed() const { return failed_; }
  // As Window.
  bool TakeBegun() { return std::exchange(begun_, false); }

 private:
  // Fills placements_.
  RxVerdict TakeData(const RxPacket& packet);
  RxVerdict PushData(const RxPacket& packet);
  // Adds the packet to the FIFO; `entry` has what is its type's own.
  RxVerdict Push(urnic_rud_receive entry, const RxPacket& packet);
  // The context that a packet names. Null: it may not have it.
  Context* FindContext(const RxPacket& packet, RxVerdict& verdict);
  static bool IsOfRead(const Context& context, const RxPacket& packet);
  // A tid that is newer than the context's, or as new.
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
  uint64_t tids_[kBurstMax] = {};  // of the packets that are placed
  // Of one packet.
  uint32_t placement_count_ = 0;
  Placement placements_[wire::kRudMaxWrites];
};

}  // namespace urnic::rud
