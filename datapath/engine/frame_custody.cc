#include "datapath/engine/frame_custody.h"

#include <rte_mempool.h>

#include <algorithm>
#include <utility>

#include "transport/base/check.h"
#include "transport/base/mutation.h"

namespace urnic {

FrameCustody::FrameCustody(rte_mempool* pool, EngineCounters* counters)
    : pool_(pool), counters_(counters), frames_(pool->size / 4) {
  free_ = limit();
  for (uint32_t i = limit(); i != 0; --i) numbers_.push_back(i - 1);
}

uint32_t FrameCustody::Keep(const ReceivedFrame& frame, FrameHolder& holder) {
  if (!HasRoomFor(holder)) {
    ++counters_->frames_not_kept;
    return kRefused;
  }
  auto* const buffer = static_cast<rte_mbuf*>(frame.buffer);
  rte_mbuf_refcnt_update(buffer, 1);
  const uint32_t number = numbers_[--free_];
  frames_[number] = buffer;
  ++holder.kept;
  ++counters_->frames_kept;
  return number;
}

void FrameCustody::Release(uint32_t number, FrameHolder& holder) {
  URNIC_CHECK(frames_[number] != nullptr && holder.kept != 0);
  MUTATION_SKIPS(engine_never_frees_kept_frames)
  rte_pktmbuf_free(frames_[number]);
  frames_[number] = nullptr;
  numbers_[free_++] = number;
  --holder.kept;
}

ReceivedFrame FrameCustody::Make(std::span<const uint8_t> bytes) {
  rte_pktmbuf_free(std::exchange(made_, rte_pktmbuf_alloc(pool_)));
  if (made_ == nullptr || bytes.size() > rte_pktmbuf_tailroom(made_)) return {};
  auto* const to = reinterpret_cast<uint8_t*>(
      rte_pktmbuf_append(made_, static_cast<uint16_t>(bytes.size())));
  std::ranges::copy(bytes, to);
  return {.bytes = {to, bytes.size()}, .buffer = made_};
}

void FrameCustody::FreeAll() {
  rte_pktmbuf_free(std::exchange(made_, nullptr));
  for (rte_mbuf* frame : frames_) rte_pktmbuf_free(frame);  // null: nothing
}

}  // namespace urnic
