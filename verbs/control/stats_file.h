#pragma once

// The counters of a device, for reading afterwards.
//
// URNIC_STATS=FILE: each port that a process closes, or has open at its exit(),
// appends one line to the file, a JSON object. If the port has two devices,
// "device" is the one that was used; if both or none were used, it is the RoCE
// device.
//   {"device": "urnic0", "pid": 1, "program": "ib_write_bw",
//    "port": {"rx_packets": 1, ..},    ras/metrics/port_counters.def
//    "fault": {"out": {"offered": 1, ..}, "in": {..}},  only if the port has
//                                      faults; transport/impair/counts.h
//    "engine": {"iterations": 1, ..},  engine_counters, requester_counters
//    "roce": {"out_of_sequence": 0, ..},  roce_counters, only if there was a
//                                      queue pair of RoCE
//    "iwarp": {"active_opens": 1, ..,  iwarp_counters, only if there was TCP
//              "terminates": {"sent": {"0x1100": 1}, "received": {}}},
//                                      by layer, type and code
//    "verdicts": {"Accept": 1, ..}}    ras/metrics/rx_verdicts.def, those > 0
// A process that is killed by a signal writes no line.

#include <string>

#include "datapath/port/port.h"

namespace urnic::control {

// The line, without the line end.
std::string StatsLine(const char* device, const EngineCounters& engine,
                      const PortCounters& port, const FaultCounts& faults);

// Whether URNIC_STATS is set.
bool StatsAreWanted();

// Appends the line. REQUIRES: StatsAreWanted(). A failure does not affect the
// program: the first one is reported on stderr, later ones in the debug log.
// Allocates. Any thread.
void AppendStats(const char* device, const EngineCounters& engine,
                 const PortCounters& port, const FaultCounts& faults);

}  // namespace urnic::control
