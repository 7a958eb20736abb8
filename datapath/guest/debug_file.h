#pragma once

// The file of URNIC_DEBUG, for the messages of DPDK and of our control code.

namespace urnic {

// The descriptor of the file that URNIC_DEBUG names; stderr for "-". The first
// call opens the file for appending. -1: URNIC_DEBUG is not set, or the file
// cannot be opened, which the first call reports on stderr. Any thread; keeps
// errno.
int DebugFd();

}  // namespace urnic
