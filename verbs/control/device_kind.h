#pragma once

// Converts rows of verbs/identity/device_kind.h into the types of queue pairs.

#include "transport/work/request.h"
#include "verbs/identity/device_kind.h"

namespace urnic::control {

static_assert(URNIC_SERVICE_RC == ServiceBit(QpService::kRc) &&
              URNIC_SERVICE_UC == ServiceBit(QpService::kUc) &&
              URNIC_SERVICE_UD == ServiceBit(QpService::kUd) &&
              URNIC_SERVICE_XRC_INITIATOR ==
                  ServiceBit(QpService::kXrcInitiator) &&
              URNIC_SERVICE_XRC_TARGET == ServiceBit(QpService::kXrcTarget) &&
              URNIC_SERVICE_IWARP == ServiceBit(QpService::kIwarp) &&
              URNIC_SERVICE_RUD == ServiceBit(QpService::kRud));

constexpr bool HasService(const urnic_device_kind& kind, QpService service) {
  return (kind.services & ServiceBit(service)) != 0;
}

// All requests that queue pairs of such a device support.
constexpr RequestSet AllRequestsOf(const urnic_device_kind& kind) {
  return RequestsThat([&](const RequestKind& request) {
    return (request.services & kind.services) != 0;
  });
}

}  // namespace urnic::control
