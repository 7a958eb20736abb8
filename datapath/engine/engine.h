#pragma once

// The engine of one port: the loop that receives, steers, runs the transport,
// places, completes and transmits. It owns the tables for that.
//
// Threads. Only the holder of the token (datapath/engine/token.h) runs the
// engine: a program thread inside Doorbell() or Progress(), the runner
// (datapath/engine/runner.h) when no program thread polls, or a control call
// inside a ControlScope. There is no other lock, and the data path never waits
// for the token.
//
// Clock: on the packet path only the engine reads the clock, once per iteration
// and once per doorbell (datapath/engine/environment.h).

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

  // Sets the network whose packets the port carries. Call it before anything
  // else. The network must outlive all work of the engine: see RunBy(). From
  // then on it belongs to the token holder.
  void Serve(Network* network);
  // The network sends through the queue and counts in the counters. Token
  // holder.
  TransmitQueue* frames() { return &tx_; }
  EngineCounters* mutable_counters() { return &counters_; }

  // --- Data path: any thread, never waits -------------------------------

  // After posting to `qp`: transmits at once if the engine is free; otherwise
  // marks `qp` for the thread that holds the token.
  void Doorbell(EngineQp& qp);

  // One bounded iteration on behalf of a thread that polls. False if another
  // thread is inside.
  bool Progress();

  // The caller is about to sleep (ibv_req_notify_cq): the runner takes over at
  // once.
  void HandOver() {
    if (runner_ != nullptr) runner_->HandOver();
  }

  // --- Runners (runner.h) -------------------------------------------------

  // Sets the runner that runs the engine besides the program. The previous
  // runner has stopped when this returns. Null: no runner. REQUIRES: outside of
  // a ControlScope; no other thread is inside HandOver().
  void RunBy(std::unique_ptr<Runner> runner);

  // What a runner can do in its turn. Valid inside TakeTurn() only.
  class Turn {
   public:
    // One bounded iteration; true if there was anything to do.
    bool Iterate() { return engine_.Iterate(/*inline_poll=*/false); }
    // The latest time for the next iteration, even if nothing arrives.
    Time NextDeadline() const { return engine_.NextDeadline(); }
    // There is work to do now.
    bool WorkLeft() const { return engine_.WorkLeft(); }
    // The port has not accepted all frames, and no wake-up says when it will.
    bool PortBlocked() const { return engine_.tx_.blocked(); }

   private:
    friend class Engine;
    explicit Turn(Engine& engine) : engine_(engine) {}
    Engine& engine_;
  };
  // Runs `turn(Turn&)` under the token, and again each time that a thread has
  // marked work meanwhile. False: another thread is inside, and nothing was
  // run. Any thread, never waits.
  template <typename F>
  bool TakeTurn(F&& turn) {
    return ServeIfFree(token_, pending_, [&] {
      Enter();
      Turn mine(*this);
      turn(mine);
      EndTurn();
    });
  }
  // Makes the thread that is inside look for work once more before it leaves.
  void AskForAnotherLook() { pending_.Mark(0); }

  // --- Control: inside a ControlScope ------------------------------------

  // Takes the token, and waits for it if necessary. Nothing else runs
  // meanwhile.
  class ControlScope {
   public:
    explicit ControlScope(Engine& engine);
    // Waits for `patience` at most. If entered() is false afterwards, the
    // caller must not touch the engine.
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
  // RESOURCE_EXHAUSTED: the network has max_qps queue pairs, or the connection
  // manager holds all numbers that are left.
  absl::StatusOr<EngineQp*> CreateQp(EngineQpConfig config);
  // The engine does not touch the queue pair afterwards.
  void DestroyQp(EngineQp* qp);

  // Takes the queue pair out of this engine and returns its image
  // (transport/work/image.h), so that it can go on elsewhere. What it still
  // owes its peer, the next engine sends; frames that are built already go out
  // from here. It leaves its multicast groups.
  std::string ExtractQp(EngineQp* qp);
  // Makes a queue pair of an image, with the number in `config.limits`, which
  // the mover has drawn and leased elsewhere, and with `path`. The rings of
  // `config` are those that the queue pair had. `config.srq` of an XRC target
  // is the shared queue that its current receive comes from, if it has one.
  // REQUIRES: what the image does not carry is there: keys under their
  // numbers, and shared queues at the position that they had.
  // ALREADY_EXISTS: the number is in use; RESOURCE_EXHAUSTED: the network has
  // max_qps queue pairs, or the number has no free place in the table;
  // INVALID_ARGUMENT: the image is refused, and why.
  absl::StatusOr<EngineQp*> InsertQp(EngineQpConfig config,
                                     const net::Path& path,
                                     std::span<const uint8_t> image);
  // The engine does not touch the queue afterwards, and it raises no event.
  // REQUIRES: no queue pair completes to it.
  void ForgetCq(CompletionQueue& cq) { completions_.Forget(cq); }
  // Moves the queue pair to `target` and completes the requests that this
  // flushes. REQUIRES: the transition is allowed (verbs/control checks).
  void ModifyQp(EngineQp& qp, QpState target, const QpConfig& config);
  void ReconfigureQp(EngineQp& qp, const QpConfig& config);

  // counters(), plus the requesters of existing queue pairs.
  EngineCounters CountersOfAll() const;

  // Appends images of queue pairs (transport/work/image.h), from `place` on,
  // until there are `enough` bytes. Returns the place to continue from; none:
  // that was all. A queue pair that is created between two calls may be left
  // out.
  std::optional<uint32_t> ExtractQps(uint32_t place, size_t enough,
                                     std::string& out) const;

  // --- Control: outside a ControlScope -----------------------------------

  // Sums since the start; of requesters, only those of destroyed queue pairs.
  // The token holder writes them; without the token a value may be slightly
  // old.
  const EngineCounters& counters() const { return counters_; }
  Port& port() { return *port_; }

  // The time of the engine's clock.
  Time Now() const { return environment_.Now(); }

 private:
  // A thread that posts a receive while the queue pair fails may not see the
  // failure yet, and then does not ring the doorbell. So the engine checks the
  // queue pair until that store must be visible (no processor delays a store
  // for so long). Later posters see EngineQp::wants_recv_doorbell. The checks
  // must end, because thousands of queue pairs may fail together.
  static constexpr Duration kStoresVisible = Duration::Milliseconds(1);
  struct LateLook {
    EngineQp* qp;
    Time until;
  };
  // Consecutive packets of one queue pair in one burst.
  struct Run {
    EngineQp* qp = nullptr;
    uint32_t count = 0;
    RxPacket packets[kBurstMax];
  };

  // After taking the token: sets the lcore id.
  void Enter();
  // Before releasing the token: tells the runner what is left to do.
  void Leave();
  // The same at the end of a runner's turn; the runner knows what is left.
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
  // Processes the first `count` frames of rx_.
  void ProcessFrames(uint32_t count, Time now);
  void FreeReceived();
  void AddToRun(EngineQp& qp, const RxPacket& packet) {
    run_.qp = &qp;
    run_.packets[run_.count++] = packet;
  }
  void FinishRun(Time now);
  // Delivers a datagram to each member of its group.
  [[gnu::cold]] void DeliverToGroup(const SteeredPacket& steered, Time now);
  // Carries out the result of a call: sets the flow's timer, updates the ready
  // list, and tells the owner of an event.
  void Apply(Flow& flow, const FlowResult& result);
  // The queue pair has gone to ERR.
  [[gnu::cold]] void OnError(EngineQp& qp);
  // The queue pair is in ERR: looks again for requests of threads that have not
  // seen that yet, and flushes them.
  void WatchLatePosts(EngineQp& qp);
  static void ReportSrqLimit(SharedReceiveQueue& srq);

  void TransmitReady(Time now, bool may_defer_acks);
  // The same while the port accepts nothing: only frames to ourselves.
  [[gnu::cold]] void TransmitToOurselves(Time now);
  // Transmits up to `room` frames; returns how many.
  uint32_t Transmit(EngineQp& qp, Time now, uint32_t room);
  // Before a queue pair stops answering: sends the responses that it owes, as
  // many as the port accepts. Otherwise a peer that waits for its last
  // acknowledgement would retry in vain, and fail.
  void SendOwed(EngineQp& qp);
  // At the end: sends frames that are complete but still wait for room.
  void SendLastFrames();
  // Adds a new queue pair to the tables. REQUIRES: its number has a place.
  EngineQp* Enlist(std::unique_ptr<EngineQp> qp);
  // Removes `qp` from every list of the engine.
  void Unlink(EngineQp& qp);
  // Removes `qp` from all tables, and deletes it.
  void Remove(EngineQp* qp);
  // A full completion queue fails its users: queue pairs go to ERR, and shared
  // receive queues of XRC no longer exist for peers (IBTA 11.6.3.3).
  void FailUsersOfFullQueues();

  // The earliest deadline of the queue pairs, the network and the held
  // completion events.
  Time NextDeadline() const {
    return std::min({wheel_.NextDeadline(), network_->next_deadline(),
                     completions_.held_deadline()});
  }

  // Any thread may access these.
  alignas(64) Token<std::atomic> token_;
  PendingSet<std::atomic> pending_;
  std::atomic<uint32_t> refused_polls_{0};

  // From here on: token holder only.
  alignas(64) Port* port_;
  Network* network_ = nullptr;
  [[no_unique_address]] Environment environment_;
  AddressSpace memory_;  // the program's
  Time last_now_;        // of the thread that is inside
  QpPlaces places_;
  ReadyList<Flow> ready_;
  CompletionWriter completions_;
  // Queue pairs that have just failed: receives posted meanwhile are still to
  // be flushed.
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
