#pragma once

// A flow is what an engine schedules: it is given the bursts of packets that
// arrive for it, has a timer, may have something to send, and somebody rings
// its doorbell. A queue pair is one; so may be a TCP connection or the window
// between two hosts that many datagram queue pairs share.
//
// Each call of a burst returns one FlowResult, which is all that the engine
// asks. The calls are virtual, once per burst; but of RC queue pairs, which
// nearly all are, the engine knows the type, and the compiler sees through.
//
// Thread: the holder of the engine's token, but for what says otherwise.

#include <cstdint>
#include <span>

#include "datapath/engine/timer_wheel.h"
#include "transport/base/time.h"
#include "transport/net/path.h"
#include "transport/work/types.h"

namespace urnic {

class FlowSink;  // datapath/engine/flow_sink.h

// The first of the lines that a packet touches is this.
class alignas(64) Flow {
 public:
  // What the engine calls directly, and what it does not.
  enum class Kind : uint8_t { kRcQp, kOtherQp };

  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;
  virtual ~Flow() = default;

  Kind kind() const { return kind_; }
  // The path that all of its packets take; null: each has its own.
  virtual const net::Path* common_path() const = 0;

  // REQUIRES: now >= the deadline that it named last.
  virtual FlowResult OnTimer(Time now, FlowSink& sink) = 0;
  // Fills up to slots.size() packets; returns how many.
  virtual uint32_t Transmit(Time now, std::span<TxSlot> slots) = 0;
  // The memory of a packet that Transmit() gave is not there; it and the later
  // ones are not sent.
  virtual void OnGatherFault(const TxSlot& slot) = 0;
  // Behind Transmit() and its faults, and behind doorbells in SQE and ERR.
  virtual FlowResult Settle(FlowSink& sink) = 0;
  // For the owner: what FlowResult::event said.
  virtual void OnEvent(QpEvent event) = 0;

  // As the last result said; below kRtr a flow takes no packets.
  QpState state() const { return state_; }
  // All that it has to send is an acknowledgement, as far as was seen.
  bool only_ack_waits() const { return only_ack_waits_; }

  // --- The engine's ---------------------------------------------------------

  void Note(const FlowResult& result) {
    state_ = result.state;
    only_ack_waits_ = result.only_ack_waits;
  }
  // Something else may have been posted.
  void OnDoorbell() { only_ack_waits_ = false; }

  Flow* ready_next = nullptr;  // ReadyList: those with something to send
  TimerLink<Flow> timer;
  bool ready = false;

 protected:
  explicit Flow(Kind kind) : kind_(kind) {}

 private:
  bool only_ack_waits_ = false;
  QpState state_ = QpState::kReset;
  const Kind kind_;
};

}  // namespace urnic
