#include "verbs/control/address_handle.h"

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "ras/errors/refusal.h"
#include "verbs/control/device_kind.h"
#include "verbs/control/qp_path.h"

namespace urnic::control {

absl::StatusOr<std::unique_ptr<AddressHandle>> AddressHandle::Create(
    Pd& pd, const AddressVector& vector) {
  Device& device = pd.device();
  if (!HasService(device.kind(), QpService::kUd)) {
    return Refusal(ErrorCode::kNotBuilt,
                   absl::StrCat("create_ah: ", device.identity().name,
                                " has no datagrams"));
  }
  // All queue pairs may share the handle, so no QPN goes into the UDP port.
  auto path = ResolvePath(device, vector, 0, 0);
  if (!path.ok()) {
    return Prefixed("create_ah: ", path.status());
  }
  if (absl::Status s = device.ahs().Reserve(device.name()); !s.ok()) return s;
  uint32_t number = 0;
  {
    Engine::ControlScope scope(device.engine());
    number = device.network().CreateAh(*path, pd.id(), device.engine().Now());
  }
  pd.Ref();
  return std::unique_ptr<AddressHandle>(
      new (device.memory()) AddressHandle(pd, number, vector.dgid));
}

AddressHandle::~AddressHandle() {
  Device& device = pd_.device();
  device.ahs().Leave(serial_);
  {
    Engine::ControlScope scope(device.engine());
    device.network().DestroyAh(number_);
  }
  pd_.Unref();
}

}  // namespace urnic::control
