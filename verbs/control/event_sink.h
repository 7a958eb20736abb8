#pragma once

// Receives a program's events. The verbs provider, or a test, implements it,
// with one object per open context or one for all.
//
// Unless a comment says otherwise, the holder of the engine's token calls these
// functions in the middle of a burst: they must not wait, and must not call
// control or the engine. The object of an event is alive during the call.

#include "transport/work/types.h"

namespace urnic::control {

class Cq;
class Srq;

class EventSink {
 public:
  // The queue was armed, and a matching completion has been written.
  virtual void OnCompletion(Cq& cq) = 0;
  // The queue overflowed: it takes no more completions (IBV_EVENT_CQ_ERR).
  virtual void OnCqError(Cq& cq) = 0;
  // `user`: as given by the opener (QpRequest::user, Qp::Open()). If several
  // have opened a queue pair, each of them gets the event.
  virtual void OnQpEvent(void* user, QpEvent event) = 0;
  // The queue has fewer requests than its limit (IBV_EVENT_SRQ_LIMIT_REACHED).
  virtual void OnSrqLimit(Srq& srq) = 0;
  // An XRC queue whose completion queue overflowed takes no more messages
  // (IBV_EVENT_SRQ_ERR).
  virtual void OnSrqError(Srq& srq) = 0;
  // The port went up or down (IBV_EVENT_PORT_ACTIVE, .._PORT_ERR). Queries
  // already show the new state. Called by the port's control thread, for sinks
  // that listen to the device (Device::Listen).
  virtual void OnPortState(bool active) = 0;
  // The device has failed (IBV_EVENT_DEVICE_FATAL, recovery.h). Called by a
  // thread of the RNIC, for the same sinks.
  virtual void OnDeviceFatal() = 0;
  // An address was added or removed (IBV_EVENT_GID_CHANGE). The GID table and
  // sysfs already show it. Called by the thread that made the change, for the
  // same sinks.
  virtual void OnGidChange() = 0;

 protected:
  ~EventSink() = default;
};

}  // namespace urnic::control
