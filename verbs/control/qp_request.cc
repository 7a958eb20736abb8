#include "verbs/control/qp_request.h"

#include "absl/strings/str_cat.h"
#include "ras/errors/refusal.h"
#include "verbs/control/device_kind.h"

namespace urnic::control {

absl::Status CheckRequest(const QpRequest& request, const Device& device) {
  if (!HasService(device.kind(), request.service)) {
    return Refusal(ErrorCode::kNotBuilt,
                   absl::StrCat("create_qp: ", device.identity().name,
                                " does not support queue pairs of this type"));
  }
  const bool target = request.service == QpService::kXrcTarget;
  const bool initiator = request.service == QpService::kXrcInitiator;
  if (target ? request.xrcd == nullptr : request.pd == nullptr) {
    return Refusal(ErrorCode::kBadAttribute, "create_qp: no domain");
  }
  if ((request.send_cq == nullptr && !target) ||
      (request.recv_cq == nullptr && !target && !initiator)) {
    return Refusal(ErrorCode::kBadAttribute,
                   "create_qp: send_cq and recv_cq are required");
  }
  if ((target || initiator) && request.srq != nullptr) {
    return Refusal(
        ErrorCode::kBadAttribute,
        "create_qp: srq must be null for XRC; the peer's requests name the "
        "shared receive queue");
  }
  if (request.srq != nullptr && request.srq->is_xrc()) {
    return Refusal(ErrorCode::kBadAttribute,
                   "create_qp: an XRC shared receive queue is for XRC targets");
  }
  const auto elsewhere = [&](const auto* object) {
    return object != nullptr && &object->device() != &device;
  };
  if (elsewhere(request.send_cq) || elsewhere(request.recv_cq) ||
      (request.srq != nullptr && elsewhere(&request.srq->pd()))) {
    return Refusal(ErrorCode::kForeignObject,
                   "create_qp: domain and queues belong to different devices");
  }
  return absl::OkStatus();
}

QpRequest Trimmed(QpRequest request) {
  if (request.service == QpService::kXrcTarget) {
    request.pd = nullptr;
    request.send_cq = nullptr;
    request.caps.max_send_wr = 0;
    request.caps.max_send_sge = 0;
    request.caps.max_inline_data = 0;
  }
  if (request.service == QpService::kXrcTarget ||
      request.service == QpService::kXrcInitiator) {
    request.recv_cq = nullptr;
    request.caps.max_recv_wr = request.caps.max_recv_sge = 0;
  }
  return request;
}

}  // namespace urnic::control
