#pragma once

// The engine of one port: the loop that receives, steers, lets the transport
// work, places, completes and transmits; with the tables that it needs.
//
// Threads. Everything is done by whoever holds the token
// (datapath/engine/token.h): a program thread inside Doorbell() or Progress(),
// the runner (datapath/engine/runner.h) when no program thread looks, or a
// control call inside a ControlScope. There is no other lock, and the data path
// never waits for the token.
//
// Clock: the engine is the only reader of the clock on the packet path, once
// per iteration and once per doorbell (datapath/engine/environment.h).

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datapath/engine/completion_writer.h"
#include "datapath/engine/engine_qp.h"
#include "datapath/engine/environment.h"
#include "datapath/engine/network.h"
#include "datapath/engine/pending_set.h"
#include "datapath/engine/qp_places.h"
#include "datapath/engine/ready_list.h"
#include "datapath/engine/runner.h"
#include "datapath/engine/timer_wheel.h"
#include "datapath/engine/token.h"
#include "datapath/engine/transmit_queue.h"
#include "datapath/memory/address_space.h"
#include "datapath/port/port.h"
#include "ras/metrics/counters.h"

namespace urnic {

class FlowSink;
class RoceSender;
class Steering;
struct SteeredPacket;

class Engine {
 public:
  // `port` outlives the engine.
  explicit Engine(Port* port, const Environment& environment = {});
  // REQUIRES: no queue pair is left and no other thread is inside.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The network whose packets the port carries, before anything else. It
  // outlives what the engine does: see RunBy(). Afterwards it is the token
  // holder's.
  void Serve(Network* network);
  // For the network, to send by and to count in. Token holder.
  TransmitQueue* frames() { return &tx_; }
  EngineCounters* mutable_counters() { return &counters_; }

  // --- Data path: any thread, never waits -------------------------------

  // After posting to `qp`: transmits at once if the engine is free, else
  // leaves word for whoever holds it.
  void Doorbell(EngineQp& qp);

  // One bounded iteration on behalf of a thread that polls. False if another
  // thread is at it.
  bool Progress();

  // The caller is about to sleep (ibv_req_notify_cq): the runner takes over at
  // once.
  void HandOver() {
    if (runner_ != nullptr) runner_->HandOver();
  }

  // --- Runners (runner.h) -------------------------------------------------

  // Who runs the engine from now on, besides the program, instead of the one
  // before, who has stopped when this returns; null: nobody. Outside of a
  // ControlScope; no other thread is inside of HandOver().
  void RunBy(std::unique_ptr<Runner> runner);

  // What a runner can do in its turn: inside of TakeTurn() only.
  class Turn {
   public:
    // One bounded iteration; true if there was anything to do.
    bool Iterate() { return engine_.Iterate(/*inline_poll=*/false); }
    // When the next one is due, whatever arrives.
    Time NextDeadline() const { return engine_.NextDeadline(); }
    // Something is left to do now.
    bool WorkLeft() const { return engine_.WorkLeft(); }
    // The port has not taken all, and nobody tells when it can.
    bool PortBlocked() const { return engine_.tx_.blocked(); }

   private:
    friend class Engine;
    explicit Turn(Engine& engine) : engine_(engine) {}
    Engine& engine_;
  };
  // Runs `turn(Turn&)` under the token, and again each time that a thread has
  // left word meanwhile. False: somebody else is inside, and nothing was run.
  // Any thread, never waits.
  template <typename F>
  bool TakeTurn(F&& turn) {
    return ServeIfFree(token_, pending_, [&] {
      Enter();
      Turn mine(*this);
      turn(mine);
      EndTurn();
    });
  }
  // Makes whoever is inside take one more look before it leaves.
  void AskForAnotherLook() { pending_.Mark(0); }

  // --- Control: inside a ControlScope ------------------------------------

  // Takes the token, waiting if it must; nothing else runs meanwhile.
  class ControlScope {
   public:
    explicit ControlScope(Engine& engine);
    // Waits for `patience` at most. REQUIRES, unless entered(): nothing of the
    // engine is touched.
    ControlScope(Engine& engine, Duration patience);
    ~ControlScope();
    bool entered() const { return entered_; }
    ControlScope(const ControlScope&) = delete;
    ControlScope& operator=(const ControlScope&) = delete;

   private:
    void Enter();

    Engine& engine_;
    bool entered_ = false;
  };

  // `config.limits.qpn` is ignored: the network draws the number.
  // RESOURCE_EXHAUSTED at its max_qps, and when no number is left that the
  // connection manager does not hold.
  absl::StatusOr<EngineQp*> CreateQp(EngineQpConfig config);
  // Nothing of the queue pair is touched afterwards.
  void DestroyQp(EngineQp* qp);
  // Nothing of the queue is touched afterwards, and it raises no event.
  // REQUIRES: no queue pair completes to it.
  void ForgetCq(CompletionQueue& cq) { completions_.Forget(cq); }
  // Moves the queue pair, which must be allowed (verbs/control checks), and
  // completes what that flushes.
  void ModifyQp(EngineQp& qp, QpState target, const QpConfig& config);
  void ReconfigureQp(EngineQp& qp, const QpConfig& config);

  // counters(), with the requesters of living queue pairs.
  EngineCounters CountersOfAll() const;

  // Appends images of queue pairs (transport/work/image.h), from `place` on,
  // until there are `enough` bytes. Returns the place to go on from; none: that
  // was all. One that is created meanwhile may be left out.
  std::optional<uint32_t> ExtractQps(uint32_t place, size_t enough,
                                     std::string& out) const;

  // --- Control: outside a ControlScope -----------------------------------

  // Sums since the start, of the requesters only those of queue pairs that are
  // gone. Written by the token holder; without the token a value may be a
  // moment old.
  const EngineCounters& counters() const { return counters_; }
  Port& port() { return *port_; }

  // The time of the engine's clock.
  Time Now() const { return environment_.Now(); }

 private:
  // A thread that posts a receive while the queue pair fails may not see the
  // failure yet, and then does not ring the doorbell. So the engine looks at
  // the queue pair until that store must be visible (no processor holds one
  // back for so long); later posters see EngineQp::wants_recv_doorbell. The
  // looking must end, because thousands of queue pairs may fail together.
  static constexpr Duration kStoresVisible = Duration::Milliseconds(1);
  struct LateLook {
    EngineQp* qp;
    Time until;
  };
  // A run of packets of one queue pair out of one burst.
  struct Run {
    EngineQp* qp = nullptr;
    uint32_t count = 0;
    RxPacket packets[kBurstMax];
  };

  // Entering with the token held: the lcore id.
  void Enter();
  // Leaves, and tells the runner what is left.
  void Leave();
  // Leaves; the runner knows.
  void EndTurn();
  bool WorkLeft() const {
    return !ready_.empty() || tx_.blocked() || tx_.looped() != 0 ||
           network_->gsi().waiting() || completions_.lost();
  }

  // One bounded iteration by the token holder; true if there was anything to
  // do. `inline_poll`: an acknowledgement may wait for the caller's next call.
  bool Iterate(bool inline_poll);

  void DrainPending();
  void LookOnceMore(Time now);
  void ServicePost(Flow& flow);
  bool Receive(Time now);
  // The first `count` of rx_.
  void ProcessFrames(uint32_t count, Time now);
  void FreeReceived();
  void AddToRun(EngineQp& qp, const RxPacket& packet) {
    run_.qp = &qp;
    run_.packets[run_.count++] = packet;
  }
  void FinishRun(Time now);
  // A datagram to a group: to each of its members.
  [[gnu::cold]] void DeliverToGroup(const SteeredPacket& steered, Time now);
  // The flow's timer, its place among those with something to send, its owner
  // told: all that follows from a call.
  void Apply(Flow& flow, const FlowResult& result);
  // It has gone to ERR.
  [[gnu::cold]] void OnError(EngineQp& qp);
  static void ReportSrqLimit(SharedReceiveQueue& srq);

  void TransmitReady(Time now, bool may_defer_acks);
  // The same while the port takes nothing.
  [[gnu::cold]] void TransmitToOurselves(Time now);
  // Up to `room` frames; returns how many.
  uint32_t Transmit(EngineQp& qp, Time now, uint32_t room);
  // Before a queue pair stops answering: what it owes goes out, as far as the
  // port takes it. A peer that waits for its last acknowledgement would retry
  // for nothing, and fail.
  void SendOwed(EngineQp& qp);
  // What is complete, but still waits for room, at the end.
  void SendLastFrames();
  // Takes `qp` off every list of the engine.
  void Unlink(EngineQp& qp);
  // What cannot complete cannot go on: queue pairs, and XRC's shared receive
  // queues, which peers find gone (IBTA 11.6.3.3).
  void FailUsersOfFullQueues();

  // The first of the queue pairs', the network's and the held completion
  // events'.
  Time NextDeadline() const {
    return std::min({wheel_.NextDeadline(), network_->next_deadline(),
                     completions_.held_deadline()});
  }

  // What every thread looks at.
  alignas(64) Token<std::atomic> token_;
  PendingSet<std::atomic> pending_;
  std::atomic<uint32_t> refused_polls_{0};

  // The token holder's, from here on.
  alignas(64) Port* port_;
  Network* network_ = nullptr;
  [[no_unique_address]] Environment environment_;
  AddressSpace memory_;  // the program's
  Time last_now_;        // of the thread that is inside
  QpPlaces places_;
  ReadyList<Flow> ready_;
  CompletionWriter completions_;
  // Have failed a moment ago: what was posted meanwhile is still to be flushed.
  std::vector<LateLook> in_error_;
  TimerWheel<Flow> wheel_;
  EngineCounters counters_;

  Run run_;
  rte_mbuf* rx_[kBurstMax];
  uint32_t rx_count_ = 0;  // processed, not freed yet
  TransmitQueue tx_;
  std::unique_ptr<Steering> steering_;
  std::unique_ptr<RoceSender> roce_;
  std::unique_ptr<FlowSink> sink_;
  std::unique_ptr<Runner> runner_;
};

}  // namespace urnic
