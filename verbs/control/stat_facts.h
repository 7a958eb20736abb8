#pragma once

// The counters of a port as lines of facts, one line for each list of counters
// (`urnic show stat`, `urnic top`, `urnic export`); counters that are zero are
// details. Also its memory (`urnic show memory`).

#include <string>

namespace urnic::control {

class OpenNic;

// The lists: "port" (Ethernet frames), "engine", "requester" (of all queue
// pairs), "roce" and "iwarp" (hw_counters, if the port has such a device),
// "verdict" once for each layer of the network, and "error" (how often each
// code occurred). Any thread that does not hold the token.
void DescribeStats(OpenNic& nic, std::string& out);

// The memory that the port's control calls have allocated (ras/memory): the
// sum, then each type and place in the source. Any thread.
void DescribeMemory(OpenNic& nic, std::string& out);

}  // namespace urnic::control
