#include "datapath/port/memif_regions.h"

#include <mutex>
#include <set>

struct rte_eth_dev;

namespace urnic {

namespace {

std::mutex g_mutex;

// Never destroyed: DPDK's threads outlive static objects.
std::set<DeviceGate*>& Gates() {
  static auto* gates = new std::set<DeviceGate*>;
  return *gates;
}

// Waits for all gates instead of finding the device's: an owner is outside
// within a burst.
void AwaitOwnersOutside() {
  std::lock_guard lock(g_mutex);
  for (DeviceGate* gate : Gates()) gate->AwaitOutside();
}

}  // namespace

void GuardMemifRegions(DeviceGate* gate) {
  std::lock_guard lock(g_mutex);
  Gates().insert(gate);
}

void ForgetMemifGate(DeviceGate* gate) {
  std::lock_guard lock(g_mutex);
  Gates().erase(gate);
}

}  // namespace urnic

// The names are the linker's.
extern "C" {

void __real_memif_free_regions(rte_eth_dev* dev);

void __wrap_memif_free_regions(rte_eth_dev* dev);

void __wrap_memif_free_regions(rte_eth_dev* dev) {
  urnic::AwaitOwnersOutside();
  __real_memif_free_regions(dev);
}
}
