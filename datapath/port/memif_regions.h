#pragma once

// When a peer leaves, DPDK's memif (22.11) immediately frees the shared memory
// in its interrupt thread, while the thread that owns the port may be reading
// it. The linker redirects that call to this code (--wrap, BUILD.bazel), which
// waits until the owner is outside. When the owner enters again, it sees that
// the port is disconnected, because the driver records that first.

#include "datapath/guest/device_gate.h"

namespace urnic {

// Any thread. In effect until ForgetMemifGate(), which is called when the
// gate's device has been closed or is no longer used.
void GuardMemifRegions(DeviceGate* gate);
void ForgetMemifGate(DeviceGate* gate);

}  // namespace urnic
