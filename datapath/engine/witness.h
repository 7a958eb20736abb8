#pragma once

// A witness sees the packets that an engine passes to its flows, and what the
// flows do. In programs there is none: the calls below compile to nothing. In
// virtual time (environment.h) the witness is the oracle of a simulator. It
// judges what neither a peer nor a program can see: the verdict on each packet,
// and the order in which memory is accessed.

#include <span>

#include "ras/metrics/rx_verdict.h"
#include "transport/work/types.h"

namespace urnic {

class EngineQp;

#ifndef URNIC_VIRTUAL_TIME

class Witness {
 public:
  static void OnBurst(const EngineQp&, std::span<const RxPacket>) {}
  static void OnVerdict(RxVerdict) {}
  static void OnPlaced(const Placement&) {}
  static void OnBurstDone() {}
  static void OnTransmit(const EngineQp&, std::span<const TxSlot>) {}
};

#else

// Called by the holder of the token, in the middle of a burst. An observer must
// not change the engine, and must not keep its arguments.
class Observer {
 public:
  // The queue pair gets these packets. The calls that follow, until
  // OnBurstDone(), report what it does with them.
  virtual void OnBurst(const EngineQp& qp,
                       std::span<const RxPacket> packets) = 0;
  // The verdict on each of them, in order.
  virtual void OnVerdict(RxVerdict verdict) = 0;
  // This placement was executed in the program's memory; for an atomic,
  // `original` is set.
  virtual void OnPlaced(const Placement& placement) = 0;
  virtual void OnBurstDone() = 0;
  // The queue pair sends these packets, if their memory is mapped.
  virtual void OnTransmit(const EngineQp& qp,
                          std::span<const TxSlot> slots) = 0;

 protected:
  ~Observer() = default;
};

class Witness {
 public:
  Witness() = default;
  // `observer` outlives every engine that has the witness or a copy of it.
  explicit Witness(Observer* observer) : observer_(observer) {}

  void OnBurst(const EngineQp& qp, std::span<const RxPacket> packets) const {
    if (observer_ != nullptr) observer_->OnBurst(qp, packets);
  }
  void OnVerdict(RxVerdict verdict) const {
    if (observer_ != nullptr) observer_->OnVerdict(verdict);
  }
  void OnPlaced(const Placement& placement) const {
    if (observer_ != nullptr) observer_->OnPlaced(placement);
  }
  void OnBurstDone() const {
    if (observer_ != nullptr) observer_->OnBurstDone();
  }
  void OnTransmit(const EngineQp& qp, std::span<const TxSlot> slots) const {
    if (observer_ != nullptr) observer_->OnTransmit(qp, slots);
  }

 private:
  Observer* observer_ = nullptr;
};

#endif

}  // namespace urnic
