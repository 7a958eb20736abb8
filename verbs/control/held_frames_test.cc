// A program ends while its ports still hold delayed frames.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "datapath/engine/engine.h"
#include "datapath/engine/environment.h"
#include "datapath/engine/network.h"
#include "datapath/port/fault_port.h"
#include "datapath/port/port.h"
#include "verbs/control/device.h"

namespace urnic::control {
namespace {

constexpr char kTwoSlowPorts[] =
    "ring:held:a|10.9.0.1/24|fault=delay=10s;"
    "ring:held:b|10.9.0.2/24|fault=delay=10s";

// Asks for a neighbour until the port holds a frame.
void AskForSomebody(Device& device) {
  class : public net::PathWaiter {
    void OnPath(net::PathStatus, const net::Path&) override {}
  } nobody;
  const net::PathQuery query = {.local = device.gids().Pairs().back().gid,
                                .remote = wire::Gid::FromIpv4(0x0a090009)};
  const Time end = Environment::Now() + Duration::Seconds(20);
  do {
    Engine::ControlScope scope(device.engine());
    const net::QuestionId question = device.network().Ask(
        query, &nobody, Environment::Now(), Duration::Seconds(1));
    device.network().Cancel(question);
  } while (!device.engine().Progress() ||
           (device.port().frames_held() == 0 && Environment::Now() < end));
}

// Devices whose ports each hold a frame.
std::vector<std::shared_ptr<Device>> OpenDevices() {
  std::vector<urnic_device_identity> identities(URNIC_MAX_DEVICES);
  char error[256];
  const int count = urnic_device_identity_parse(
      kTwoSlowPorts, 1, identities.data(), error, sizeof(error));
  EXPECT_EQ(count, 2) << error;
  std::vector<std::shared_ptr<Device>> devices;
  for (int i = 0; i < count; ++i) {
    auto device = Device::Open(identities[static_cast<size_t>(i)], {});
    EXPECT_TRUE(device.ok()) << device.status();
    if (!device.ok()) continue;
    AskForSomebody(**device);
    EXPECT_NE((*device)->port().frames_held(), 0u);
    devices.push_back(*std::move(device));
  }
  return devices;
}

TEST(HeldFramesTest, WaitingForAllDevicesTakesAsLongAsForOne) {
  const auto devices = OpenDevices();
  const Time start = Environment::Now();
  OpenNic::FlushAll();
  OpenNic::AwaitHeldFrames();
  const Duration took = Environment::Now() - start;
  EXPECT_GE(took, FaultPort::kLastFrames);
  EXPECT_LT(took, FaultPort::kLastFrames * 2);
}

TEST(HeldFramesTest, ClosingADeviceWaitsOnce) {
  auto devices = OpenDevices();
  const Time start = Environment::Now();
  devices.pop_back();
  EXPECT_LT(Environment::Now() - start, FaultPort::kLastFrames * 2);
}

}  // namespace
}  // namespace urnic::control
