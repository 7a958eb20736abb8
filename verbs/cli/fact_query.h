#pragma once

// What the commands that print objects of running programs have in common:
// `urnic show` and `urnic trace`.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ras/facts/facts.h"
#include "verbs/cli/command_line.h"
#include "verbs/cli/fact_list.h"
#include "verbs/cli/rnic_process.h"

namespace urnic {

// The words of the user.
struct FactQuery {
  std::vector<std::string> filters;
  std::string process;
  std::string from;  // a recording (ras/recorder), instead of programs
  bool details = false;
  bool json = false;
  bool pretty = false;
};

// The argument FILTER, and --process, --details, --json and --pretty. `query`
// outlives the parse.
void AddFactQuery(Command& command, FactQuery* query);

// The filters. INVALID_ARGUMENT: they are none, or nothing could match them.
absl::StatusOr<std::vector<FactFilter>> FiltersOf(const FactQuery& query);

struct Answers {
  std::vector<Facts> objects;
  bool complete = true;  // every program has answered, or all was recorded
};

// The programs that a filter by pid does not exclude: a stopped one would delay
// the answer. Fails as FindRnics().
absl::StatusOr<std::vector<RnicProcess>> ProgramsOf(
    const FactQuery& query, const std::vector<FactFilter>& filters);

// The objects of a kind that match. Of a recording, all that was recorded. Says
// on stderr, after "urnic COMMAND: ", which programs do not answer.
absl::StatusOr<Answers> Ask(const FactQuery& query, const std::string& kind,
                            const char* command);

void Print(const std::vector<Facts>& objects, const FactQuery& query);

}  // namespace urnic
