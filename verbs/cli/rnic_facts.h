#pragma once

// What a running program tells of its objects.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ras/facts/facts.h"
#include "verbs/cli/rnic_process.h"

namespace urnic {

// The objects of an answer to a question of `urnic show`, or why there are
// none.
absl::StatusOr<std::vector<Facts>> ObjectsIn(
    const RnicProcess& rnic, const absl::StatusOr<std::string>& answer);

// All objects of a kind of `urnic show`, of several programs. Says on stderr,
// after "urnic COMMAND: ", what is wrong with those that do not answer, removes
// them from `rnics`, so that the next question need not wait for them, and
// clears `all_answered`, which may be null.
std::vector<Facts> ObjectsOfAll(std::vector<RnicProcess>& rnics,
                                const std::string& kind, const char* command,
                                bool* all_answered = nullptr);

}  // namespace urnic
