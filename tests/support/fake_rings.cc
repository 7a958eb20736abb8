#include "tests/support/fake_rings.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "transport/base/check.h"

namespace urnic::testing {
namespace {

uint32_t RoundUp16(uint32_t bytes) { return (bytes + 15) & ~15u; }

void CopySges(uint8_t* to, const std::vector<urnic_sge>& sges) {
  if (!sges.empty()) {
    std::memcpy(to, sges.data(), sges.size() * sizeof(urnic_sge));
  }
}

// Publishes what was written: an engine may read it in another thread.
void Advance(FakeRing& ring) {
  std::atomic_ref(ring.indices().producer)
      .fetch_add(1, std::memory_order_release);
}

}  // namespace

FakeRing::FakeRing(uint32_t entries, uint32_t stride)
    : entries_(entries),
      stride_(stride),
      bytes_(size_t{entries} * stride),
      indices_(std::make_unique<urnic_queue_indices>()) {
  *indices_ = {};
}

WorkQueueView FakeRing::view() {
  return WorkQueueView(bytes_.data(), indices_.get(), entries_, stride_);
}

uint8_t* FakeRing::entry(uint32_t index) {
  return bytes_.data() + size_t{index & (entries_ - 1)} * stride_;
}

bool FakeRing::Contains(uint64_t address, uint64_t bytes) const {
  const uint64_t begin = reinterpret_cast<uint64_t>(bytes_.data());
  return address >= begin && bytes <= bytes_.size() &&
         address - begin <= bytes_.size() - bytes;
}

FakeRings::FakeRings(uint32_t sq_entries, uint32_t max_sge_send,
                     uint32_t max_inline, uint32_t rq_entries,
                     uint32_t max_sge_recv)
    : sq_(sq_entries,
          RoundUp16(sizeof(urnic_sq_wqe) +
                    std::max<uint32_t>(max_inline,
                                       max_sge_send * sizeof(urnic_sge)))),
      rq_(rq_entries,
          RoundUp16(sizeof(urnic_rq_wqe) + max_sge_recv * sizeof(urnic_sge))) {}

void FakeRings::WriteSend(uint32_t index, const SendWr& wr) {
  urnic_sq_wqe wqe = {};
  wqe.opcode = wr.opcode;
  wqe.flags = wr.flags;
  wqe.imm_or_key = wr.imm_or_key;
  wqe.wr_id = wr.wr_id;
  wqe.remote_addr = wr.remote_addr;
  wqe.rkey = wr.rkey;
  wqe.xrc_srqn = wr.xrc_srqn;
  wqe.compare_add = wr.compare_add;
  wqe.swap = wr.swap;
  uint8_t* entry = sq_.entry(index);
  uint8_t* tail = entry + sizeof(wqe);
  if (!wr.inline_data.empty()) {
    wqe.flags |= URNIC_SEND_INLINE;
    wqe.inline_bytes = static_cast<uint32_t>(wr.inline_data.size());
    URNIC_CHECK(
        sq_.Contains(reinterpret_cast<uint64_t>(tail), wr.inline_data.size()));
    std::memcpy(tail, wr.inline_data.data(), wr.inline_data.size());
  } else {
    wqe.num_sge = static_cast<uint8_t>(wr.sges.size());
    CopySges(tail, wr.sges);
  }
  std::memcpy(entry, &wqe, sizeof(wqe));
}

bool FakeRings::PostSend(const SendWr& wr) {
  if (sq_.full()) return false;
  WriteSend(sq_.indices().producer, wr);
  Advance(sq_);
  return true;
}

bool FakeRings::PostRecv(const RecvWr& wr) {
  if (rq_.full()) return false;
  urnic_rq_wqe wqe = {};
  wqe.wr_id = wr.wr_id;
  wqe.num_sge = static_cast<uint32_t>(wr.sges.size());
  uint8_t* entry = rq_.entry(rq_.indices().producer);
  std::memcpy(entry, &wqe, sizeof(wqe));
  CopySges(entry + sizeof(wqe), wr.sges);
  Advance(rq_);
  return true;
}

}  // namespace urnic::testing
