#include "verbs/control/qp_request.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ras/errors/refusal.h"
#include "verbs/control/device_kind.h"
#include "verbs/control/limits.h"

namespace urnic::control {

namespace {

absl::Status CheckWindow(const QpRequest& request) {
  if (request.rud.job == 0)
    return Refusal(ErrorCode::kBadAttribute,
                   "create_window: a job is a number other than 0");
  if (request.caps.max_send_wr == 0 || request.caps.max_recv_wr == 0) {
    return Refusal(ErrorCode::kBadAttribute,
                   "create_window: both FIFOs need entries");
  }
  return absl::OkStatus();
}

}  // namespace

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
  if (request.service == QpService::kRud) return CheckWindow(request);
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

uint32_t ReceiveSges(const QpRequest& request) {
  // Requests to a target may name any shared receive queue.
  if (request.service == QpService::kXrcTarget) return kMaxSge;
  return request.srq != nullptr ? request.srq->max_sge()
                                : std::max(request.caps.max_recv_sge, 1u);
}

QpLayout LayoutOf(const QpRequest& request) {
  const QpCaps& caps = request.caps;
  if (request.service == QpService::kRud)
    return MakeRudLayout(caps.max_send_wr, caps.max_recv_wr);
  const bool own_rq = request.srq == nullptr;
  return MakeQpLayout(caps.max_send_wr, caps.max_send_sge, caps.max_inline_data,
                      own_rq ? caps.max_recv_wr : 0,
                      own_rq ? caps.max_recv_sge : 0);
}

QpCaps Granted(const QpRequest& request, const QpLayout& layout) {
  if (request.service == QpService::kRud) {
    return {.max_send_wr = layout.sq_entries,
            .max_recv_wr = layout.rq_entries,
            .max_inline_data = URNIC_RUD_INLINE};
  }
  const uint32_t send_data = layout.inline_bytes();
  const uint32_t asked_sge = request.caps.max_recv_sge;
  return {.max_send_wr = layout.sq_entries,
          .max_recv_wr = layout.rq_entries,
          .max_send_sge = std::min<uint32_t>(
              kMaxSge, send_data / static_cast<uint32_t>(sizeof(urnic_sge))),
          .max_recv_sge = request.srq != nullptr ? 0 : std::max(asked_sge, 1u),
          .max_inline_data = std::min(kMaxInline, send_data)};
}

}  // namespace urnic::control
