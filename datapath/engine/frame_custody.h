#pragma once

// Received frames that cores keep (transport/base/frame_keeper.h). A kept frame
// has an additional reference. So the Receiver need not know about it when it
// frees its bursts: TransmitQueue::Recycle() reuses only frames without other
// references. Token holder only.
//
// A frame costs one buffer, whatever its length, so the limits count frames:
// per holder (FrameHolder::limit, FrameKeeper::kGreed), and in total a quarter
// of the engine's pool. Custody must never stop reception.

#include <rte_mbuf.h>

#include <cstdint>
#include <span>
#include <vector>

#include "ras/metrics/counters.h"
#include "transport/base/frame_keeper.h"

namespace urnic {

class FrameCustody final : public FrameKeeper, public FrameMaker {
 public:
  // Both outlive this object. Counts frames_kept and frames_not_kept.
  FrameCustody(rte_mempool* pool, EngineCounters* counters);
  FrameCustody(const FrameCustody&) = delete;
  FrameCustody& operator=(const FrameCustody&) = delete;

  uint32_t Keep(const ReceivedFrame& frame, FrameHolder& holder) override;
  void Release(uint32_t number, FrameHolder& holder) override;
  // Makes a frame with the bytes of one that another engine had in custody.
  ReceivedFrame Make(std::span<const uint8_t> bytes) override;

  // Frees all frames. Call nothing else afterwards.
  void FreeAll();

  uint32_t kept() const { return limit() - free_; }
  uint32_t limit() const { return static_cast<uint32_t>(frames_.size()); }

 private:
  rte_mempool* const pool_;
  EngineCounters* const counters_;
  std::vector<rte_mbuf*> frames_;  // by number; null: the number is free
  std::vector<uint32_t> numbers_;  // the first free_ entries are free
  rte_mbuf* made_ = nullptr;       // by the last Make()
};

}  // namespace urnic
