#pragma once

// Where URNIC_DEBUG sends the messages of DPDK and of our control code.

namespace urnic {

// The descriptor of the file that URNIC_DEBUG names, opened for appending at
// the first call; stderr for "-". -1: none is named, or it cannot be opened,
// which the first call reports on stderr. Any thread; keeps errno.
int DebugFd();

}  // namespace urnic
