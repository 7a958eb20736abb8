#pragma once

// Carries out the effects of a flow's calls: it collects and executes
// placements, counts verdicts, and writes completions. One per engine; token
// holder only.

#include <cstdint>
#include <span>
#include <utility>

#include "datapath/engine/completion_writer.h"
#include "datapath/engine/engine_qp.h"
#include "datapath/engine/witness.h"
#include "datapath/memory/address_space.h"
#include "ras/metrics/counters.h"
#include "transport/work/types.h"

namespace urnic {

class FlowSink {
 public:
  // See TracedSink.
  static constexpr bool kTraces = false;

  // All outlive the sink. `*now` is the current time of the engine.
  FlowSink(CompletionWriter* completions, AddressSpace* memory,
           EngineCounters* counters, Failures* failures, const Time* now,
           Witness witness)
      : completions_(completions),
        memory_(memory),
        counters_(counters),
        failures_(*failures),
        now_(now),
        witness_(witness) {}
  FlowSink(const FlowSink&) = delete;
  FlowSink& operator=(const FlowSink&) = delete;

  // --- For cores: see rc::Qp::OnBurst() -------------------------------------

  void Place(const Placement& placement) {
    if (placement_count_ == kPlacementMax) Execute();
    placements_[placement_count_++] = placement;
  }
  void Complete(const RecvCompletion& done) { recvs_[recv_count_++] = done; }
  void CountMark() { ++counters_->ce_received; }
  void Count(RxVerdict verdict) {
    ++counters_->verdicts[static_cast<size_t>(verdict)];
    witness_.OnVerdict(verdict);
  }

  // --- For flows ------------------------------------------------------------

  Time now() const { return *now_; }
  // Starts a burst.
  void Begin() {
    placement_count_ = 0;
    recv_count_ = 0;
    faulted_[0] = faulted_[1] = false;
  }
  // Packets that a flow held back, and that are due now, are a burst of their
  // own. The flow writes up to kRunMax of them to due(), and calls BeginDue().
  std::span<RxPacket> due() { return due_; }
  [[gnu::cold]] void BeginDue(const EngineQp& qp, uint32_t count) {
    witness_.OnBurstDone();
    Begin();
    witness_.OnBurst(qp, {due_, count});
  }
  // Executes the collected placements, and reports faults to the core. After a
  // fault of the responder or of the requester, no more placements of that half
  // are executed in this burst.
  template <typename Core>
  void Execute(Core& core) {
    Execute();
    if (__builtin_expect(faulted_[0] || faulted_[1], 0)) {
      for (const bool of_responder : {false, true}) {
        if (!std::exchange(untold_[of_responder], false)) continue;
        ++counters_->placement_faults;
        core.OnPlacementFault(faults_[of_responder], {recvs_, recv_count_});
      }
    }
  }
  // Executes one placement, independent of all others. False: it failed.
  [[nodiscard]] bool ExecuteAlone(const Placement& placement) {
    if (__builtin_expect(!memory_->Execute(placement), 0)) {
      ++counters_->placement_faults;
      return false;
    }
    witness_.OnPlaced(placement);
    return true;
  }
  // The receives that the burst has completed.
  std::span<const RecvCompletion> receives() const {
    return {recvs_, recv_count_};
  }

  // If a burst completes more receives than there is room for: when full(), the
  // flow executes the placements, writes the completions, and forgets them.
  bool full() const { return recv_count_ == kRunMax; }
  void ForgetReceives() { recv_count_ = 0; }

  void WriteSent(const EngineQp& qp, const SendCompletion& done) {
    urnic_cqe cqe = {};
    cqe.wr_id = done.wr_id;
    cqe.byte_len = done.byte_len;
    cqe.qp_num = qp.qpn();
    cqe.status = done.status;
    cqe.opcode = done.opcode;
    if (__builtin_expect(done.status != URNIC_WC_SUCCESS, 0))
      cqe.vendor_err =
          OnFailed(qp, TracePoint::kSendCompleted, cqe, done.cause);
    Write(*qp.send_cq, cqe);
  }
  void WriteReceived(const EngineQp& qp, CompletionQueue& cq,
                     const RecvCompletion& done) {
    urnic_cqe cqe = {};
    cqe.wr_id = done.wr_id;
    cqe.byte_len = done.byte_len;
    cqe.imm_or_key = done.imm_or_key;
    cqe.qp_num = qp.qpn();
    cqe.src_qp = done.src_qp;
    cqe.status = done.status;
    cqe.opcode = done.opcode;
    if (__builtin_expect(done.status != URNIC_WC_SUCCESS, 0))
      cqe.vendor_err =
          OnFailed(qp, TracePoint::kReceiveCompleted, cqe, done.cause);
    cqe.wc_flags = done.wc_flags;
    cqe.sl = done.sl;
    cqe.solicited = done.solicited ? 1 : 0;
    Write(cq, cqe);
  }

  // A queue pair, not a work request, has failed.
  void OnFailed(const Failure& failure) { failures_.Add(failure); }

 private:
  static constexpr uint32_t kPlacementMax = 128;

  // Records a failed work request, and returns its code. A flushed request is
  // not recorded: its queue pair failed before, or the program wanted the
  // flush.
  [[gnu::cold, gnu::noinline]] uint32_t OnFailed(const EngineQp& qp,
                                                 TracePoint point,
                                                 const urnic_cqe& cqe,
                                                 RxVerdict cause) {
    const ErrorCode code = CodeOfStatus(cqe.status);
    failures_.TraceCompletion(
        point, SubjectOf(qp),
        {cqe.wr_id, cqe.status, cqe.opcode, cqe.byte_len});
    if (code != ErrorCode::kFlushed) {
      const bool is_send = point == TracePoint::kSendCompleted;
      failures_.Add(FailureOf(Failure{.code = code,
                                      .has_request = true,
                                      .is_send = is_send,
                                      .status = cqe.status,
                                      .cause = cause,
                                      .wr_id = cqe.wr_id},
                              qp));
    }
    return static_cast<uint32_t>(code);
  }

  void Execute() {
    for (uint32_t i = 0; i < placement_count_; ++i) {
      const Placement& placement = placements_[i];
      const bool half = placement.from_responder;
      if (faulted_[half]) continue;
      if (__builtin_expect(!memory_->Execute(placement), 0)) {
        faulted_[half] = untold_[half] = true;
        faults_[half] = placement;
        continue;
      }
      witness_.OnPlaced(placement);
    }
    placement_count_ = 0;
  }

  void Write(CompletionQueue& cq, urnic_cqe& cqe) {
    cqe.time_ns = static_cast<uint64_t>(now_->ns());
    completions_->Push(cq, cqe, *now_);
  }

  CompletionWriter* const completions_;
  AddressSpace* const memory_;
  EngineCounters* const counters_;
  Failures& failures_;
  const Time* const now_;
  [[no_unique_address]] const Witness witness_;
  // Index 0: the requester, 1: the responder.
  bool faulted_[2] = {};  // of the burst
  bool untold_[2] = {};   // the fault was not reported to the core yet
  uint32_t placement_count_ = 0;
  uint32_t recv_count_ = 0;
  Placement faults_[2];
  Placement placements_[kPlacementMax];
  RecvCompletion recvs_[kRunMax];
  RxPacket due_[kRunMax];
};

}  // namespace urnic
