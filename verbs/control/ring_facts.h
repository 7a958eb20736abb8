#pragma once

// What happened to the queue pairs of a port (ras/history), and what failed on
// it (datapath/engine/failures.h), as lines of facts: `urnic show event`,
// `urnic show error`, and the error log. Of all devices of the port, in the
// order of time.
//
// Those with a number append some lines, from the entry `number` on, and return
// the number to continue from; none: that was all. Any thread that does not
// hold the token.

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

// Tells the port's failures of what was found where nothing could be told: of
// verbs that were refused in a signal handler, of refusals without an RNIC
// (untold.h), and of memory that was written over behind its end.
// DescribeErrors() does it first.
void NoteUntold(OpenNic& nic);

// The name of a rare event, and its words.
void AddEvent(HistoryEvent event, uint32_t a, uint32_t b, FactWriter& facts);

std::optional<uint64_t> DescribeEvents(OpenNic& nic, uint64_t number,
                                       std::string& out);
std::optional<uint64_t> DescribeErrors(OpenNic& nic, uint64_t number,
                                       std::string& out);
// How queue pairs, and what they use, were when they failed: `urnic show
// snapshot`.
std::optional<uint64_t> DescribeSnapshots(OpenNic& nic, uint64_t number,
                                          std::string& out);
// One line.
void DescribeError(const Failure& failure, const OpenNic& nic,
                   std::string& out);

}  // namespace urnic::control
