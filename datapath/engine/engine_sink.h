#pragma once

// Collects what a run of packets does (rc::Qp's sink) and executes it.

#include <cstdint>
#include <span>

#include "datapath/engine/engine.h"
#include "datapath/memory/placer.h"

namespace urnic {

struct Engine::Sink {
 public:
  void Begin(EngineQp* qp, CopyMode mode, EngineCounters* counters) {
    qp_ = qp;
    mode_ = mode;
    counters_ = counters;
    placement_count_ = 0;
    recv_count_ = 0;
    faulted_[0] = faulted_[1] = false;
  }

  void Place(const Placement& placement) {
    if (placement_count_ == kPlacementMax) Execute();
    placements_[placement_count_++] = placement;
  }
  void Complete(const RecvCompletion& done) { recvs_[recv_count_++] = done; }
  void Count(RxVerdict verdict) {
    ++counters_->verdicts[static_cast<size_t>(verdict)];
  }

  // Executes what has been collected. Behind a fault the half that it hit,
  // responder or requester, places nothing any more.
  void Execute() {
    for (uint32_t i = 0; i < placement_count_; ++i) {
      const Placement& placement = placements_[i];
      const bool half = placement.from_responder;
      if (faulted_[half]) continue;
      if (__builtin_expect(!ExecutePlacement(mode_, placement), 0)) {
        faulted_[half] = true;
        faults_[half] = placement;
      }
    }
    placement_count_ = 0;
  }

  // The first fault of a half of the queue pair, or nullptr.
  const Placement* fault(bool of_responder) const {
    return faulted_[of_responder] ? &faults_[of_responder] : nullptr;
  }
  bool faulted() const { return faulted_[0] || faulted_[1]; }
  std::span<RecvCompletion> receives() { return {recvs_, recv_count_}; }
  uint32_t recv_count() const { return recv_count_; }

  urnic_cqe MakeCqe(uint32_t index, Time now) const {
    const RecvCompletion& done = recvs_[index];
    urnic_cqe cqe = {};
    cqe.wr_id = done.wr_id;
    cqe.byte_len = done.byte_len;
    cqe.imm_or_key = done.imm_or_key;
    cqe.qp_num = qp_->qpn();
    cqe.src_qp = done.src_qp;
    cqe.vendor_err = static_cast<uint32_t>(done.cause);
    cqe.status = done.status;
    cqe.opcode = done.opcode;
    cqe.wc_flags = done.wc_flags;
    cqe.sl = done.sl;
    cqe.solicited = done.solicited ? 1 : 0;
    cqe.time_ns = static_cast<uint64_t>(now.ns());
    return cqe;
  }

  static urnic_cqe MakeCqe(const EngineQp& qp, const SendCompletion& done,
                           Time now) {
    urnic_cqe cqe = {};
    cqe.wr_id = done.wr_id;
    cqe.byte_len = done.byte_len;
    cqe.qp_num = qp.qpn();
    cqe.vendor_err = static_cast<uint32_t>(done.cause);
    cqe.status = done.status;
    cqe.opcode = done.opcode;
    cqe.time_ns = static_cast<uint64_t>(now.ns());
    return cqe;
  }

 private:
  static constexpr uint32_t kPlacementMax = 128;

  EngineQp* qp_ = nullptr;
  EngineCounters* counters_ = nullptr;
  CopyMode mode_ = CopyMode::kGuarded;
  // Index 0: the requester, 1: the responder.
  bool faulted_[2] = {};
  uint32_t placement_count_ = 0;
  uint32_t recv_count_ = 0;
  Placement faults_[2];
  Placement placements_[kPlacementMax];
  RecvCompletion recvs_[kBurstMax];
};

}  // namespace urnic
