#pragma once

// The debug log. It has what the verbs interface cannot express: the reason for
// an errno.
//
// URNIC_DEBUG=FILE appends to a file, URNIC_DEBUG=- writes to stderr. Without
// it there is no log. DPDK's own messages go to the same log
// (datapath/guest/eal.h).

#include <string_view>

namespace urnic::control {

// Writes "urnic: TEXT\n" in one piece. Any thread; keeps errno.
void DebugLog(std::string_view text);

// Also writes to stderr, with or without URNIC_DEBUG. For failures that the
// user would otherwise only see as a program's "cannot open device".
void ComplainLoudly(std::string_view text);

}  // namespace urnic::control
