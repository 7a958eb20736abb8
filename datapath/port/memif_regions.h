#pragma once

// DPDK's memif (22.11) frees the memory that it shares with its peer in its
// interrupt thread as soon as the peer has gone, while the thread that owns the
// port may be reading it. The linker puts us in front of that one call
// (--wrap, BUILD.bazel): it waits until the owner is outside. The owner finds
// the port without a connection when it comes back, for that is what the
// driver notes down first.

#include "datapath/guest/device_gate.h"

namespace urnic {

// Any thread. From here on until ForgetMemifGate(), which is called when the
// gate's device has been closed, or is seen no more.
void GuardMemifRegions(DeviceGate* gate);
void ForgetMemifGate(DeviceGate* gate);

}  // namespace urnic
