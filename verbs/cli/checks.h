#pragma once

// The checks of `urnic doctor`. A check changes nothing. It reports what it
// found and what to do.

#include <cstdint>
#include <string>
#include <vector>

#include "verbs/identity/device_identity.h"

namespace urnic {

enum class Finding { kOk, kWarn, kFail };

struct Check {
  Finding finding;
  std::string what;    // two or three words
  std::string found;   // one line
  std::string remedy;  // what to do; empty if nothing
};

// The machine.
Check CheckInstall();
Check CheckVerbsLibrary();
Check CheckVerbsPrograms();
Check CheckProc();
Check CheckHugePages();
Check CheckMemlock();
// `limit`: RLIMIT_AS in bytes.
Check CheckAddressSpace(uint64_t limit);
Check CheckCpus();
Check CheckTun();
// What `urnic clean` would remove.
Check CheckLeftOvers();
// Whether the name of a port is claimed by a user who has no right to it.
Check CheckClaims();
Check CheckKernelDevices();

// The ports. `needed`: a port with a kernel interface is configured.
Check CheckRawSockets(bool needed);
// Which device rdma_cm takes for which address of the port. Empty for a port
// without an iWARP device.
std::vector<Check> CheckTransports(const urnic_device_identity& device);
// The kernel interface of a port; empty for other kinds of port.
std::vector<Check> CheckInterface(const urnic_device_identity& device);
// Another RNIC that has the port's kernel interface. Empty for other kinds.
std::vector<Check> CheckPortIsFree(const urnic_device_identity& device);
// The port's addresses that this machine's kernel has, too. Empty for ports
// without a kernel interface.
std::vector<Check> CheckAddresses(const urnic_device_identity& device);
// The routers that are in none of the networks of the port's addresses. Such a
// route only works after `urnic addr add` has added that network.
std::vector<Check> CheckRouters(const urnic_device_identity& device);
// Whether the unix socket file of a port can be created or reached. Empty for
// other kinds, and for abstract sockets.
std::vector<Check> CheckSocket(const urnic_device_identity& device);

}  // namespace urnic
