#pragma once

// Mistakes in filters that are known before any program is asked
// (fact_list.h). Pure.

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "verbs/cli/fact_list.h"

namespace urnic {

// INVALID_ARGUMENT: a name whose facts are always numbers ("lqpn", "pid") has a
// value that is not a number of 64 bits, or a range without one: nothing could
// match.
absl::Status CheckNumbers(const std::vector<FactFilter>& filters);

// INVALID_ARGUMENT: a filter by `name` has a value that means none of `known`,
// the only ones that there are. Names the one that was probably meant, or all
// of them.
absl::Status CheckValues(const std::vector<FactFilter>& filters,
                         const std::string& name,
                         const std::vector<std::string>& known);

}  // namespace urnic
