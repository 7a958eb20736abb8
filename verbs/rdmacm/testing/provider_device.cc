// The device is the provider's, on its engine: there is nothing to install.

#include "verbs/rdmacm/testing/librdmacm_device.h"

namespace urnic::rdmacm {

void InstallLibrdmacmDevice() {}

}  // namespace urnic::rdmacm
