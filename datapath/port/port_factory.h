#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "datapath/port/port.h"
#include "datapath/port/port_claim.h"

namespace urnic {

struct PortConfig {
  std::string dev;   // syntax: port_spec.h
  uint16_t mtu = 0;  // 0: see ParsePortSpec()
  // The RNIC's MAC. All zero: a locally administered address, which is derived
  // from host, namespace and device, and so is the same each time.
  wire::MacAddress mac = {};
  // Use the interface's own MAC (iface: only), for networks that filter unknown
  // MACs.
  bool mac_of_interface = false;
  // The faults to inject (transport/impair/fault_spec.h); empty: none.
  std::string fault = {};
  // Slots of the rings, unless the driver decides.
  uint16_t rx_ring = 1024;
  uint16_t tx_ring = 1024;
  // May be null; Port::info() has the same text.
  PortReport report = nullptr;
  // May be null.
  PortWarning warn = nullptr;
  // May be null. CreatePort() calls it when it has removed a socket that a
  // killed process had left.
  PortWarning removed = nullptr;
  // For the EAL, if this is the first port: EalOptions::memory_mb.
  uint32_t memory_mb = 0;
};

// Claims the port, starts the EAL if it does not run, allocates the buffers and
// returns. This takes 0.1 s for the first port and a millisecond for later
// ones. The device starts when it can (see Port::info()). Any thread; may
// create threads, which have all signals blocked.
//
// Errors: those of ParsePortSpec(), PortClaim::Take(), StartEal(), TakePool(),
// AllocateLcore(), ParseFaultSpec() and FaultPort::Create(); NOT_FOUND if
// mac_of_interface is set and there is no interface.
absl::StatusOr<std::unique_ptr<Port>> CreatePort(const PortConfig& config);

}  // namespace urnic
