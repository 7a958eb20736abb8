#pragma once

// What `urnic doctor` looks at. Each check looks, changes nothing, and says
// what it found and what to do.

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
  std::string remedy;  // what to do; empty when nothing needs doing
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
// What dead programs and dead demos have left behind.
Check CheckLeftOvers();
// Do users without a right to a port hold its name?
Check CheckClaims();
Check CheckKernelDevices();

// The ports. `needed`: a port with a kernel interface is configured.
Check CheckRawSockets(bool needed);
// Everything about one port's kernel interface; empty for other kinds.
std::vector<Check> CheckInterface(const urnic_device_identity& device);
// The routers of its routes that are on no link of its addresses: such a route
// works only once `urnic addr add` gives it a link.
std::vector<Check> CheckRouters(const urnic_device_identity& device);
// Can the file of a port that meets its peer at a unix socket be there? Empty
// for other kinds, and for abstract sockets.
std::vector<Check> CheckSocket(const urnic_device_identity& device);

}  // namespace urnic
