#pragma once

// A loopback port for tests of verbs/control, with the address 10.9.0.1/24.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/nic/nic.h"
#include "transport/base/check.h"
#include "verbs/control/device.h"

namespace urnic::control {

class LoopDeviceTest : public ::testing::Test {
 protected:
  LoopDeviceTest() : identities_(URNIC_MAX_DEVICES) {
    char error[256];
    URNIC_CHECK(urnic_device_identity_parse("loop|10.9.0.1/24", 1,
                                            identities_.data(), error,
                                            sizeof(error)) == 1);
  }
  // Its RoCE device.
  std::shared_ptr<Device> OpenDevice() const {
    return *Device::Open(identities_.front(), {});
  }

 private:
  std::vector<urnic_device_identity> identities_;
};

}  // namespace urnic::control
