#pragma once

// A flow is the unit that an engine schedules. It receives the bursts of
// packets that arrive for it, has a timer, may have something to send, and has
// a doorbell. These are flows: a queue pair of RoCE or iWARP, a TCP connection,
// which sends and receives for a queue pair of iWARP, and a window of RUD,
// which many datagram queue pairs share.
//
// Each of these calls returns one FlowResult, which is all that the engine then
// asks of the flow. The calls are virtual, one per burst. How a flow gives its
// packets depends on its wire (RoceQp, IwarpConnection). Nearly all flows are
// RC queue pairs; the engine knows their type, so the compiler makes those
// calls direct.
//
// Thread: the holder of the engine's token, except where a comment says
// otherwise.

#include <cstdint>
#include <span>

#include "datapath/engine/timer_wheel.h"
#include "transport/base/time.h"
#include "transport/net/path.h"
#include "transport/work/types.h"

namespace urnic {

class FlowSink;    // datapath/engine/flow_sink.h
class TracedSink;  // datapath/engine/traced_sink.h

// This is the first of the cache lines that a packet touches.
class alignas(64) Flow {
 public:
  // The engine calls kRcQp directly, and everything else virtually.
  enum class Kind : uint8_t {
    kRcQp,         // of RoCE: RC and the ends of XRC
    kOtherRoceQp,  // UC, UD
    kIwarpQp,      // sends and receives nothing itself (EngineQp::serving_flow)
    kConnection,   // TCP, with the upper layers of iWARP
    kRudWindow,
  };

  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;
  virtual ~Flow() = default;

  Kind kind() const { return kind_; }
  // It is a RoceQp.
  bool is_roce_qp() const { return kind_ <= Kind::kOtherRoceQp; }
  // The path of all its packets; null: each packet has its own.
  virtual const net::Path* common_path() const = 0;

  // REQUIRES: now >= the deadline of the last result.
  virtual FlowResult OnTimer(Time now, FlowSink& sink) = 0;
  // Called instead of OnTimer() while the port sends nothing. The peer is not
  // to blame, so this time does not count as its silence.
  virtual void OnOutage(Time) {}
  // Called after the flow has transmitted, and for doorbells in SQE and ERR.
  virtual FlowResult Settle(FlowSink& sink) = 0;
  virtual FlowResult Settle(TracedSink& sink) = 0;
  // Passes FlowResult::event on to the owner.
  virtual void OnEvent(QpEvent event) = 0;
  // Sets the flag that tells posting threads that the flow is in ERR, where
  // their requests are flushed. Returns the previous value.
  virtual bool ShowFailed(bool failed) = 0;
  // The flow has gone to ERR, and all posted requests are flushed.
  virtual void OnFailed() = 0;

  // The state in the last result. Below kRtr a flow accepts no packets.
  QpState state() const { return state_; }
  // True if all its packets leave through the port, none through loopback.
  bool needs_port() const {
    const net::Path* const path = common_path();
    return path != nullptr && !path->loopback;
  }
  // The last result says that the flow has only an acknowledgement to send.
  bool only_ack_waits() const { return only_ack_waits_; }

  // --- For the engine -------------------------------------------------------

  void Note(const FlowResult& result) {
    state_ = result.state;
    only_ack_waits_ = result.only_ack_waits;
  }
  // After a post the flow may have more to send than an acknowledgement.
  void OnDoorbell() { only_ack_waits_ = false; }

  Flow* ready_next = nullptr;  // in the ReadyList, if it has something to send
  TimerLink<Flow> timer;
  bool ready = false;

 protected:
  explicit Flow(Kind kind) : kind_(kind) {}

  bool is_logged_ = false;  // EngineQp::LogInputs()

 private:
  bool only_ack_waits_ = false;
  QpState state_ = QpState::kReset;
  const Kind kind_;
};

}  // namespace urnic
