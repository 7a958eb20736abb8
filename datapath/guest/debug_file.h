#pragma once

// Where URNIC_DEBUG sends what DPDK and our own control code have to say.

namespace urnic {

// The descriptor of the file that URNIC_DEBUG names, opened for appending at
// the first call; stderr for "-"; -1 if there is none, or it cannot be opened,
// which that call says on stderr. Any thread; keeps errno.
int DebugFd();

}  // namespace urnic
