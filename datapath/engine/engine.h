#pragma once

// The engine of one port: the loop that calls its parts, under the token.
// Receiver, FlowScheduler, Transmitter and QpTable do the work.
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
#include <atomic>
#include <cstdint>
#include <memory>

#include "datapath/engine/answer_policy.h"
#include "datapath/engine/completion_writer.h"
#include "datapath/engine/engine_qp.h"
#include "datapath/engine/environment.h"
#include "datapath/engine/frame_custody.h"
#include "datapath/engine/pending_set.h"
#include "datapath/engine/runner.h"
#include "datapath/engine/token.h"
#include "datapath/engine/transmit_queue.h"
#include "datapath/memory/address_space.h"
#include "datapath/port/port.h"
#include "ras/capture/capture.h"
#include "ras/history/history.h"
#include "ras/metrics/counters.h"
#include "ras/trace/trace.h"

namespace urnic {

class ConnectionTable;
class FlowScheduler;
class Network;
class QpTable;
class Receiver;
class TracedSink;
class Transmitter;
namespace cc {
struct RoundTripCounts;
}
namespace rc {
class RecoveryPool;
}

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
  // The network sends through the queue, keeps frames in custody, and counts in
  // the counters. Token holder.
  TransmitQueue* frames() { return &tx_; }
  FrameCustody* custody() { return &custody_; }
  EngineCounters* mutable_counters() { return &counters_; }

  // --- Data path: any thread, never waits -------------------------------

  // After posting to `qp`: transmits immediately if the engine is free;
  // otherwise marks `qp` for the thread that holds the token.
  void Doorbell(EngineQp& qp);

  // One bounded iteration on behalf of a thread that polls. False if another
  // thread is inside.
  bool Progress();

  // The caller is about to sleep (ibv_req_notify_cq): the runner takes over
  // immediately.
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
    Time NextDeadline() const {
      return std::min(engine_.NextDeadline(), engine_.answers_.until());
    }
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
  // Makes the thread that holds the token look for work once more before it
  // releases the token.
  // The place that is marked is free unless 32768 queue pairs exist.
  void AskForAnotherLook() {
    pending_.Mark(PendingSet<std::atomic>::kSegmentPlaces - 1);
  }

  // --- Control: inside a ControlScope ------------------------------------

  // Takes the token, and waits for it if necessary. Nothing else runs
  // meanwhile. The destructor sends up to one burst of what is ready, so
  // completions may be written and events raised.
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

  // While the engine is quiet, it receives and sends nothing, and no timer
  // fires: only control calls change its state. The peers see a pause, so it
  // must be short.
  void SetQuiet(bool quiet) { quiet_.store(quiet, std::memory_order_relaxed); }

  // The port is down, or up again. While it is down, the timers of flows that
  // need it wait, so that these flows do not give up on their peers.
  void SetOutage(bool outage) { outage_ = outage; }

  // counters(), plus those of existing queue pairs and connections.
  EngineCounters CountersOfAll();
  // How long the round trips of all connections took, by powers of two.
  cc::RoundTripCounts RoundTripsOfAll() const;
  // The trace: what happens, in the detail that its levels select. Any thread
  // may change the levels.
  Trace& trace() { return trace_; }
  // The frames that the engine receives and sends, while a capture is active.
  Capture& capture() { return capture_; }
  // Rare events of its queue pairs and connections.
  const History& history() const { return history_; }
  // What has failed, with which peer, and why.
  Failures& failures() { return failures_; }
  // The engine's queue pairs.
  QpTable& qps() { return *qps_; }
  // Its iWARP connections. REQUIRES: the network serves iWARP.
  ConnectionTable& connections() { return *connections_; }
  // Ends all connections and stops serving iWARP. Peers get a RST if the port
  // accepts it now. Call it before the network ends. REQUIRES: no queue pair of
  // iWARP is left, and connections and listeners are no longer used.
  void EndConnections();
  // The engine does not touch the queue afterwards, and it raises no event.
  // REQUIRES: no queue pair completes to it.
  void ForgetCq(CompletionQueue& cq) { completions_.Forget(cq); }

  // --- Control: outside a ControlScope -----------------------------------

  // Sums since the start. The counters of requesters and of iWARP only include
  // queue pairs and connections that are destroyed. The token holder writes
  // them; without the token a value may be slightly old.
  const EngineCounters& counters() const { return counters_; }
  Port& port() { return *port_; }

  // The time of the engine's clock.
  Time Now() const { return environment_.Now(); }

 private:
  // A blocked port that accepts no frame for kSlow counts as stuck: timers
  // wait. After kStuck its device is replaced.
  static constexpr Duration kSlow = Duration::Milliseconds(1);
  static constexpr Duration kStuck = Duration::Seconds(2);

  // After taking the token: sets the lcore id.
  void Enter();
  // Before releasing the token: tells the runner what is left to do.
  void Leave();
  // The same at the end of a runner's turn; the runner knows what is left.
  void EndTurn();
  bool WorkLeft() const;

  bool is_quiet() const { return quiet_.load(std::memory_order_relaxed); }
  // How long timers of flows that need the port must wait, because the port is
  // down or stuck; 0: they fire.
  Duration TimersHold(Time now) const {
    if (__builtin_expect(outage_, 0)) return Duration::Milliseconds(20);
    const bool stuck = tx_.blocked() && accepted_ == counters_.tx_packets &&
                       now - accepted_at_ > kSlow;
    return stuck ? Duration::Milliseconds(2) : Duration();
  }
  // The port has not accepted all frames: measures how long it has accepted
  // none.
  [[gnu::cold, gnu::noinline]] void WatchBlocked(Time now);
  void TransmitAll();
  // One bounded iteration by the token holder; true if there was anything to
  // do. `inline_poll`: an acknowledgement may wait for the program's next call.
  bool Iterate(bool inline_poll);
  // After frames were received, if there is something to send: acknowledgements
  // wait, to be sent together with an answer that the program may be about to
  // post.
  bool AcksWait(Time now, bool inline_poll);

  // The earliest deadline of the flows, the network and the held completion
  // events.
  Time NextDeadline() const;

  // Any thread may access these.
  alignas(64) Token<std::atomic> token_;
  PendingSet<std::atomic> pending_;
  std::atomic<uint32_t> refused_polls_{0};
  std::atomic<bool> quiet_{false};

  // From here on: token holder only.
  alignas(64) Port* port_;
  Network* network_ = nullptr;
  [[no_unique_address]] Environment environment_;
  AddressSpace memory_;  // the program's
  Time now_;             // of the thread that is inside
  CompletionWriter completions_;
  AnswerPolicy answers_;
  EngineCounters counters_;
  Trace trace_;
  Capture capture_;
  TransmitQueue tx_;
  bool outage_ = false;
  // While the port is blocked: when it was last seen to accept frames, and how
  // many it had accepted by then.
  Time accepted_at_;
  uint64_t accepted_ = 0;
  History history_;
  Failures failures_;
  FrameCustody custody_;
  std::unique_ptr<rc::RecoveryPool> recovery_;
  std::unique_ptr<TracedSink> sink_;
  std::unique_ptr<FlowScheduler> flows_;
  std::unique_ptr<Transmitter> transmitter_;
  std::unique_ptr<Receiver> receiver_;
  std::unique_ptr<ConnectionTable> connections_;  // null: no iWARP
  std::unique_ptr<QpTable> qps_;
  std::unique_ptr<Runner> runner_;
};

}  // namespace urnic
