#pragma once

// Lines of facts about the events of a port's queue pairs (ras/history), and
// about its failures (datapath/engine/failures.h), for `urnic show event`,
// `urnic show error` and the error log. They include all devices of the port,
// in the order of time.
//
// Functions with a `number` append some lines, from that entry on, and return
// the number to continue from; none: there are no more. Any thread that does
// not hold the token.

#include <cstdint>
#include <optional>
#include <string>

#include "datapath/engine/failures.h"
#include "ras/facts/facts.h"
#include "ras/history/history.h"

namespace urnic::control {

class OpenNic;

// The link of the port's device for this wire: "urnic0/1".
std::string LinkName(const OpenNic& nic, bool iwarp);

// Adds to the port's failures what could not be reported when it was found:
// verbs that were refused in a signal handler, refusals without an open RNIC
// (untold.h), and writes beyond the end of memory. DescribeErrors() calls this
// first.
void NoteUntold(OpenNic& nic);

// Adds the name of a rare event, and what its arguments mean.
void AddEvent(HistoryEvent event, uint32_t a, uint32_t b, FactWriter& facts);

std::optional<uint64_t> DescribeEvents(OpenNic& nic, uint64_t number,
                                       std::string& out);
std::optional<uint64_t> DescribeErrors(OpenNic& nic, uint64_t number,
                                       std::string& out);
// The states of queue pairs, and of the objects that they use, when they
// failed: `urnic show snapshot`.
std::optional<uint64_t> DescribeSnapshots(OpenNic& nic, uint64_t number,
                                          std::string& out);
// Appends one line.
void DescribeError(const Failure& failure, const OpenNic& nic,
                   std::string& out);

}  // namespace urnic::control
