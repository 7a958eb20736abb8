// The device is the provider's own, over its engine: nothing to install.

#include "verbs/rdmacm/testing/librdmacm_device.h"

namespace urnic::rdmacm {

void InstallLibrdmacmDevice() {}

}  // namespace urnic::rdmacm
