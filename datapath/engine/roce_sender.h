#pragma once

// Turns packets of queue pairs into RoCE frames, for the port or for loopback.
// The counterpart of Steering; other wires have senders of their own. Token
// holder only. The code for connected queue pairs is inline, for the loop that
// includes it.

#include <rte_mbuf.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "datapath/engine/network.h"
#include "datapath/engine/roce_framer.h"
#include "datapath/engine/roce_qp.h"
#include "datapath/engine/transmit_queue.h"
#include "datapath/engine/witness.h"
#include "datapath/memory/address_space.h"
#include "ras/metrics/counters.h"
#include "transport/work/types.h"

namespace urnic {

class RoceSender {
 public:
  // All outlive the sender.
  RoceSender(TransmitQueue* tx, AddressSpace* memory, EngineCounters* counters,
             Witness witness)
      : tx_(tx), memory_(memory), counters_(counters), witness_(witness) {
    for (uint32_t i = 0; i < kBurstMax; ++i) slots_[i].headers = headers_[i];
  }
  RoceSender(const RoceSender&) = delete;
  RoceSender& operator=(const RoceSender&) = delete;

  // Call this before anything else. The network outlives all use of this
  // object.
  void Serve(Network* network) { network_ = network; }

  // True if the queue pair may use loopback, which has no room now. The next
  // iteration makes room.
  bool IsBlocked(const RoceQp& qp) const {
    return MayLoop(qp) && tx_->loop_room() == 0;
  }
  // Returns up to `wanted` slots, if there is room. The queue pair fills them,
  // and the caller then passes them to Send(). REQUIRES: wanted <=
  // tx->empty_frames(), and the port accepts that many.
  std::span<TxSlot> Slots(const RoceQp& qp, uint32_t wanted) {
    return {slots_, MayLoop(qp) ? std::min(wanted, tx_->loop_room()) : wanted};
  }
  // Sends frames of the first `count` slots; returns how many. If fewer were
  // sent, the queue pair has been told why the next one failed. `sink`: that of
  // the burst.
  template <typename Sink>
  uint32_t Send(RoceQp& qp, uint32_t count, Sink& sink) {
    if (count == 0) return 0;
    witness_.OnTransmit(qp, {slots_, count});
    qp.path.FollowNeighbor();
    uint32_t built = 0;
    while (built < count && Build(qp, slots_[built], tx_->PeekEmpty(built))) {
      ++built;
    }
    for (uint32_t i = 0; i < built; ++i) {
      rte_mbuf* frame = tx_->TakeEmpty();
      RocePath& path = *PathOf(qp, slots_[i]);
      RoceFramer::Seal(path, slots_[i], frame);
      if (__builtin_expect(path.multicast || path.source_gone, 0) &&
          !GoesOut(path, frame)) {
        continue;
      }
      if constexpr (Sink::kTraces) sink.OnSent(qp, slots_[i], *frame);
      if (path.loopback) {
        tx_->PushToOurselves(frame);
      } else {
        tx_->Push(frame);
      }
    }
    return built;
  }

 private:
  // Any datagram may use loopback.
  static bool MayLoop(const RoceQp& qp) {
    return qp.path.loopback || qp.service() == QpService::kUd;
  }

  // Null: the address handle does not exist, or belongs to another domain.
  RocePath* PathOf(RoceQp& qp, const TxSlot& slot) {
    if (__builtin_expect(qp.service() != QpService::kUd, 1)) return &qp.path;
    RocePath* path =
        network_->address_handles().Find(slot.address_handle, qp.pd());
    if (path != nullptr) path->FollowNeighbor();
    return path;
  }

  // False: the packet has no path, or its memory is not mapped. The queue pair
  // has been told.
  bool Build(RoceQp& qp, const TxSlot& slot, rte_mbuf* frame) {
    RocePath* const path = PathOf(qp, slot);
    if (__builtin_expect(path == nullptr, 0)) {
      qp.OnNoPath(slot);
      return false;
    }
    if (RoceFramer::Build(*path, *memory_, slot, frame)) return true;
    qp.OnGatherFault(slot);
    ++counters_->placement_faults;
    return false;
  }

  // Treats multicast, and paths whose source address is gone. False: the frame
  // cannot be sent and was freed.
  [[gnu::cold]] bool GoesOut(const net::Path& path, rte_mbuf* frame) {
    if (path.source_gone) {
      ++counters_->tx_source_gone;
      rte_pktmbuf_free(frame);
      return false;
    }
    if (path.multicast) LoopMulticast(path, frame);
    return true;
  }
  // Loops back a copy of the frame if a local queue pair has joined the group.
  void LoopMulticast(const net::Path& path, const rte_mbuf* frame) {
    if (network_->groups().MembersOf(path.remote).empty()) return;
    if (!tx_->PushCopyToOurselves(frame)) ++counters_->tx_copies_lost;
  }

  TransmitQueue* const tx_;
  AddressSpace* const memory_;
  EngineCounters* const counters_;
  [[no_unique_address]] const Witness witness_;
  Network* network_ = nullptr;
  TxSlot slots_[kBurstMax];
  uint8_t headers_[kBurstMax][kMaxHeaderBytes];
};

}  // namespace urnic
