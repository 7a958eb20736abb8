#pragma once

// One end of a reliable connection: a queue pair of a real engine, the
// program's rings and completion queues, and the rules for what it does
// (order_rule.h, wire_rules.h). Completions are seen at the moment when they
// are written.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datapath/engine/completion_queue.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "ras/inputs/input_log.h"
#include "tests/sim/completion.h"
#include "tests/sim/machine.h"
#include "tests/sim/order_rule.h"
#include "tests/sim/program_memory.h"
#include "tests/sim/wire_rules.h"
#include "tests/support/fake_rings.h"

namespace urnic::rc {
class Qp;
}

namespace urnic::sim {

struct RcEndOptions {
  uint32_t pd = 1;
  uint32_t sq_entries = 64;
  uint32_t rq_entries = 64;
  uint32_t max_sge = 4;
  uint32_t max_inline = 64;
  bool sq_sig_all = false;
  bool two_queues = false;  // of completions
  // Both ends of an XRC connection in one: its requests name the other end's
  // shared queue, which takes what that end receives.
  bool xrc = false;
};

class RcEnd final : private EngineEvents, private QpEvents {
 public:
  // Both outlive it.
  RcEnd(World& world, Machine& machine, ProgramMemory& memory,
        const RcEndOptions& options);
  ~RcEnd();

  uint32_t qpn() const { return qpn_; }
  // XRC: of its shared receive queue.
  uint32_t srqn() const { return srqs_[0] != nullptr ? srqs_[0]->number : 0; }
  // Which RNIC of the machine has the queue pair.
  int at() const { return at_; }
  QpState state() const { return qp_->state(); }
  // For inspection.
  const rc::Qp& core() const;
  bool HasWork() const;
  testing::FakeRings& rings() { return rings_; }
  ProgramMemory& memory() { return memory_; }
  mem::MrTable& keys() { return rnic().network().mrs(); }
  const RcEndOptions& options() const { return options_; }
  // Posted requests must be entered here.
  OrderRule& order() { return order_; }

  // A new life: from RESET to RTS.
  void Connect(const QpConfig& config);
  void Modify(QpState target, const QpConfig& config);
  // Call after posting requests. Receives need it only if the queue pair asks.
  void Doorbell() { rnic().engine().Doorbell(*qp_); }
  void OnReceivesPosted() {
    if (qp_->wants_recv_doorbell()) Doorbell();
  }
  // Whether the send queue has drained since the last call.
  bool TakeDrained() { return std::exchange(drained_, false); }

  // From now on it moves to the machine's other RNIC and back, between any two
  // turns, once in `every` times.
  void MoveNowAndThen(uint64_t seed, uint64_t every) {
    mover_ = Random(seed);
    move_every_ = every;
  }
  uint64_t moves() const { return moves_; }

  // From now on its inputs are logged, and at the end they are replayed: that
  // must give the same (replay.h). Not for XRC.
  void LogInputs(size_t bytes);
  // Returns the number of calls that were replayed.
  uint64_t CheckInputs() const;

  // What the program sees, one by one.
  std::function<void(const Completion&)> on_completion;
  // After each effect of a packet on memory.
  std::function<void(const Placement&)> on_placed;

  // --- For the machine ------------------------------------------------------

  void OnBurst(std::span<const RxPacket> packets);
  void OnVerdict(RxVerdict verdict) { verdicts_.push_back(verdict); }
  void OnPlaced(const Placement& placement);
  void OnBurstDone();
  void OnTransmit(std::span<const TxSlot> slots);
  // A turn of the engine is over.
  void AfterTurn();
  // One of its packets has left.
  void OnSent(const wire::RocePacket& packet) {
    // Notifications were judged when they were made: marks may have come since.
    if (packet.info->kind == wire::PacketKind::kCnp) return;
    rules_.OnSent(packet, world_.now());
  }

 private:
  struct Cq;

  EngineHost& rnic() { return machine_.rnic(at_); }
  EngineQpConfig ConfigFor(int rnic);
  void Move();
  bool PortIsBlocked();
  void JudgeNotification(const TxSlot& slot);

  void OnCompletionEvent(CompletionQueue& queue) override;
  void OnCqOverflow(CompletionQueue&) override {
    Violate("a completion queue has overflowed");
  }
  void OnQpEvent(EngineQp&, QpEvent event) override {
    drained_ |= event == QpEvent::kSqDrained;
  }

  World& world_;
  Machine& machine_;
  ProgramMemory& memory_;
  const RcEndOptions options_;
  testing::FakeRings rings_;
  std::unique_ptr<Cq> cqs_[2];
  SharedReceiveQueue* srqs_[2] = {};  // XRC: one for each RNIC
  int at_ = 0;
  RoceQp* qp_ = nullptr;
  uint32_t qpn_ = 0;
  bool drained_ = false;

  std::optional<Random> mover_;
  uint64_t move_every_ = 0;
  bool move_planned_ = false;
  uint64_t moves_ = 0;
  std::shared_ptr<InputLog> inputs_;
  Time came_at_;  // with the last move, on the clock of the RNIC

  WireRules rules_;
  OrderRule order_;
  // Of the burst that is being executed.
  bool in_burst_ = false;
  std::vector<wire::RocePacket> packets_;
  std::vector<RxVerdict> verdicts_;
  std::vector<Completion> completions_;
};

}  // namespace urnic::sim
