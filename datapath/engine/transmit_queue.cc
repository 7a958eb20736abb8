#include "datapath/engine/transmit_queue.h"

#include <rte_mbuf.h>

#include "transport/base/mutation.h"

namespace urnic {

void TransmitQueue::FreeAll() {
  rte_pktmbuf_free_bulk(waiting_ + waiting_first_, waiting_count_);
  rte_pktmbuf_free_bulk(looped_, looped_count_);
  rte_pktmbuf_free_bulk(empty_, empty_count_);
}

bool TransmitQueue::Refill() {
  const uint32_t missing = kBurstMax - empty_count_;
  if (rte_pktmbuf_alloc_bulk(port_->pool(), empty_ + empty_count_, missing) !=
      0) {
    ++counters_->tx_no_mbuf;
    // A bulk allocation gives all or nothing; an acknowledgement needs only
    // one.
    if (empty_count_ == 0) {
      empty_[0] = rte_pktmbuf_alloc(port_->pool());
      if (empty_[0] != nullptr) empty_count_ = 1;
    }
    return empty_count_ != 0;
  }
  empty_count_ = kBurstMax;
  return true;
}

void TransmitQueue::Recycle(rte_mbuf** frames, uint32_t count) {
  rte_mempool* const pool = port_->pool();
  uint32_t others = 0;
  for (uint32_t i = 0; i < count; ++i) {
    rte_mbuf* const frame = frames[i];
    if (empty_count_ != kBurstMax && frame->pool == pool &&
        rte_mbuf_refcnt_read(frame) == 1 && RTE_MBUF_DIRECT(frame)) {
      rte_pktmbuf_reset(frame);
      empty_[empty_count_++] = frame;
    } else {
      frames[others++] = frame;
    }
  }
  if (others != 0) rte_pktmbuf_free_bulk(frames, others);
}

bool TransmitQueue::FlushWaiting() {
  rte_mbuf** const waiting = waiting_ + waiting_first_;
  limit_.Learn(waiting[0]->data_len, waiting[waiting_count_ - 1]->data_len);
  const uint32_t sent =
      port_->Transmit(waiting, static_cast<uint16_t>(waiting_count_));
  counters_->tx_packets += sent;
  waiting_first_ += sent;
  waiting_count_ -= sent;
  MUTATION_ADDS(engine_loses_what_the_port_refuses, waiting_count_ = 0;)
  if (waiting_count_ != 0) return false;
  waiting_first_ = 0;
  return true;
}

bool TransmitQueue::PushCopyToOurselves(const rte_mbuf* frame) {
  if (loop_room() == 0) return false;
  rte_mbuf* const copy = rte_pktmbuf_copy(frame, frame->pool, 0, UINT32_MAX);
  if (copy == nullptr) return false;
  PushToOurselves(copy);
  return true;
}

uint32_t TransmitQueue::TakeLooped(rte_mbuf** out, uint32_t max) {
  const uint32_t count = std::min(looped_count_, max);
  std::copy(looped_, looped_ + count, out);
  std::copy(looped_ + count, looped_ + looped_count_, looped_);
  looped_count_ -= count;
  return count;
}

std::span<uint8_t> TransmitQueue::Frame() {
  if (room() == 0 || !HasEmptyFrame()) return {};
  rte_mbuf* frame = PeekEmpty(0);
  return {rte_pktmbuf_mtod(frame, uint8_t*),
          std::min<size_t>(frame->buf_len - frame->data_off,
                           port_->mtu() + kL2HeaderBytesMax)};
}

void TransmitQueue::Send(size_t bytes, bool loopback) {
  if (bytes == 0 || (loopback && loop_room() == 0)) return;
  rte_mbuf* frame = TakeEmpty();
  frame->data_len = static_cast<uint16_t>(bytes);
  frame->pkt_len = frame->data_len;
  if (capture_->active()) {
    capture_->Add(/*outbound=*/true, /*qpn=*/0, /*verdict=*/nullptr,
                  {rte_pktmbuf_mtod(frame, const uint8_t*), bytes});
  }
  if (loopback) return PushToOurselves(frame);
  Push(frame);
  Flush();
}

}  // namespace urnic
