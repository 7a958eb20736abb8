#pragma once

// The rings of one queue pair in private memory, written as the provider
// would write them (verbs/abi/rnic_abi.h), and as a hostile program might.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/work/recv_queue.h"
#include "transport/work/work_queue.h"
#include "verbs/abi/rnic_abi.h"

namespace urnic::testing {

// A send work request as a program would write it. If `inline_data` is set, it
// goes into the ring; otherwise `sges` say where the data lies.
struct SendWr {
  uint8_t opcode = URNIC_WR_SEND;
  uint8_t flags = URNIC_SEND_SIGNALED;
  uint64_t wr_id = 0;
  std::vector<urnic_sge> sges = {};
  std::vector<uint8_t> inline_data = {};
  uint64_t remote_addr = 0;
  uint32_t rkey = 0;
  uint32_t imm_or_key = 0;
  uint32_t xrc_srqn = 0;  // bind: the region
  uint64_t compare_add = 0;
  uint64_t swap = 0;
};

struct RecvWr {
  uint64_t wr_id = 0;
  std::vector<urnic_sge> sges = {};
};

// One ring and its two indices.
class FakeRing {
 public:
  // REQUIRES: entries is a power of two.
  FakeRing(uint32_t entries, uint32_t stride);

  WorkQueueView view();
  // The entry that free-running index `index` names.
  uint8_t* entry(uint32_t index);
  urnic_queue_indices& indices() { return *indices_; }
  uint32_t entries() const { return entries_; }
  bool full() const {
    return indices_->producer - std::atomic_ref(indices_->consumer).load() >=
           entries_;
  }
  // Does [address, address + bytes) lie inside the ring?
  bool Contains(uint64_t address, uint64_t bytes) const;

 private:
  uint32_t entries_;
  uint32_t stride_;
  std::vector<uint8_t> bytes_;
  std::unique_ptr<urnic_queue_indices> indices_;
};

class FakeRings {
 public:
  FakeRings(uint32_t sq_entries, uint32_t max_sge_send, uint32_t max_inline,
            uint32_t rq_entries, uint32_t max_sge_recv);

  FakeRing& sq() { return sq_; }
  FakeRing& rq() { return rq_; }

  // Writes an entry without moving the producer index.
  void WriteSend(uint32_t index, const SendWr& wr);
  // Writes the next entry and moves the index; false when the ring is full.
  bool PostSend(const SendWr& wr);
  bool PostRecv(const RecvWr& wr);

 private:
  FakeRing sq_;
  FakeRing rq_;
};

// A receive queue with its own ring, and room for its lists.
class OwnRecvQueue {
 public:
  // `shared`: other queue pairs, of domain `pd`, take from it.
  OwnRecvQueue(WorkQueueView view, uint32_t max_sge, bool shared = false,
               uint32_t pd = 0)
      : sges_(max_sge),
        ring_(view, max_sge, pd),
        queue_(shared ? nullptr : &ring_, sges_.data(), shared) {}

  RecvQueue& queue() { return queue_; }
  RecvRing& ring() { return ring_; }

 private:
  std::vector<urnic_sge> sges_;
  RecvRing ring_;
  RecvQueue queue_;
};

}  // namespace urnic::testing
