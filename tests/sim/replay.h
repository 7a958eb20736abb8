#pragma once

// Runs a log of inputs again (ras/inputs, transport/work/inputs.h): a core is
// made from the log's image, gets the same calls at the same times, and must do
// the same. So a failure in production can be looked at as often as needed, by
// a debugger or with prints in the core, without the program, its peer or time.
//
// No memory is touched: what packets of RC carry, and what is sent over iWARP,
// is not in the log. The core's own checks (CheckInvariants) run after each
// call.

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "ras/inputs/input_log.h"

namespace urnic::sim {

struct ReplayStats {
  uint64_t calls = 0;
  uint64_t received = 0;  // packets, or segments
  uint64_t sent = 0;
  uint64_t completions = 0;
  uint64_t errors = 0;  // completions with an error
  // The first call whose outcome was another one, from 1; 0: none.
  uint64_t differs_at = 0;
  std::string difference;
};

// A line for people.
using ReplayListener = std::function<void(const std::string&)>;

// Each segment of the log is replayed by itself. `say` is called for each
// event; null: nobody reads the lines. INVALID_ARGUMENT: the log cannot be
// replayed, with the reason.
absl::StatusOr<ReplayStats> Replay(const ParsedInputLog& log,
                                   const ReplayListener& say);

}  // namespace urnic::sim
