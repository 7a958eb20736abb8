#pragma once

// The arguments of Qp::Create().

#include "absl/status/status.h"
#include "transport/work/types.h"
#include "verbs/control/cq.h"
#include "verbs/control/device.h"
#include "verbs/control/event_sink.h"
#include "verbs/control/pd.h"
#include "verbs/control/qp_attributes.h"
#include "verbs/control/queue_memory.h"
#include "verbs/control/rud_rings.h"
#include "verbs/control/srq.h"
#include "verbs/control/xrcd.h"

namespace urnic::control {

struct QpRequest {
  QpService service = QpService::kRc;
  Pd* pd = nullptr;      // all but XRC targets
  Xrcd* xrcd = nullptr;  // XRC targets
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  Srq* srq = nullptr;  // instead of a receive queue of its own
  QpCaps caps;
  bool sq_sig_all = false;
  // The program posts from one thread only (a thread domain).
  bool single_threaded = false;
  QueueAllocator* allocator = nullptr;  // outlives the queue pair
  RudRequest rud;                       // windows of RUD
  EventSink* events = nullptr;
  void* user = nullptr;
};

// Checks that all objects that the service needs are given, and belong to this
// device. Errors: those of Qp::Create().
absl::Status CheckRequest(const QpRequest& request, const Device& device);

// The request without the parts that the service ignores.
QpRequest Trimmed(QpRequest request);

// The longest scatter list of a receive that the queue pair may use.
uint32_t ReceiveSges(const QpRequest& request);
QpLayout LayoutOf(const QpRequest& request);
// The sizes that the layout has room for: at least those of the request.
QpCaps Granted(const QpRequest& request, const QpLayout& layout);

}  // namespace urnic::control
