#pragma once

// What a running program tells of its objects.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ras/facts/facts.h"
#include "verbs/cli/rnic_process.h"

namespace urnic {

// All objects of a kind of `urnic show`. Errors of AskRnic() and Unreadable().
absl::StatusOr<std::vector<Facts>> ObjectsOf(const RnicProcess& rnic,
                                             const std::string& kind);

// The same of several programs. Says on stderr, after "urnic COMMAND: ", what
// is wrong with those that do not answer, and leaves them out.
std::vector<Facts> ObjectsOfAll(const std::vector<RnicProcess>& rnics,
                                const std::string& kind, const char* command);

}  // namespace urnic
