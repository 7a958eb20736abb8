#include "verbs/control/mw.h"

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "ras/errors/refusal.h"
#include "transport/base/check.h"

namespace urnic::control {

absl::StatusOr<std::unique_ptr<Mw>> Mw::Create(Pd& pd, Type type) {
  Device& device = pd.device();
  uint32_t key = 0;
  {
    Engine::ControlScope scope(device.engine());
    key = device.network().mrs().AllocateWindow(pd.id(), type == Type::k2);
  }
  if (key == 0) {
    return Refusal(ErrorCode::kNoPlace,
                   absl::StrCat(device.identity().name, ": all ",
                                device.kind().limits.max_mrs,
                                " memory regions and windows in use"));
  }
  URNIC_CHECK(device.mws().Reserve(device.name()).ok());  // it had a key
  pd.Ref();
  return std::unique_ptr<Mw>(new (pd.device().memory()) Mw(pd, key, type));
}

Mw::~Mw() {
  Device& device = pd_.device();
  device.mws().Leave(serial_);
  {
    Engine::ControlScope scope(device.engine());
    URNIC_CHECK(device.network().mrs().FreeWindow(key_));
  }
  pd_.Unref();
}

}  // namespace urnic::control
