#pragma once

// What the verbs interface cannot say: the reason behind an errno.
//
// URNIC_DEBUG=FILE appends to a file, URNIC_DEBUG=- writes to stderr. Without
// it there is no log. DPDK's own messages go the same way
// (datapath/guest/eal.h).

#include <string_view>

namespace urnic::control {

// Writes "urnic: TEXT\n" in one piece. Any thread; keeps errno.
void DebugLog(std::string_view text);

// Also writes to stderr, with or without URNIC_DEBUG. For failures of which the
// user would otherwise see only a program's "cannot open device".
void ComplainLoudly(std::string_view text);

}  // namespace urnic::control
