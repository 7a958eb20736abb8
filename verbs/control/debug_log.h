#pragma once

// What the verbs interface cannot say: the reason behind an errno.
//
// URNIC_DEBUG=FILE appends there, URNIC_DEBUG=- writes to stderr; unset, there
// is no log. DPDK's own messages go the same way (datapath/guest/eal.h).

#include <string_view>

namespace urnic::control {

// Writes "urnic: TEXT\n" in one piece. Any thread; keeps errno.
void DebugLog(std::string_view text);

// The same to stderr as well, always: for failures that would leave the user
// with nothing but a program's "cannot open device".
void ComplainLoudly(std::string_view text);

}  // namespace urnic::control
