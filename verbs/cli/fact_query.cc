#include "verbs/cli/fact_query.h"

#include <cstdio>
#include <set>

#include "absl/strings/str_cat.h"
#include "ras/facts/facts_json.h"
#include "verbs/cli/filter_check.h"
#include "verbs/cli/recorded.h"
#include "verbs/cli/rnic_command.h"
#include "verbs/cli/rnic_facts.h"
#include "verbs/cli/snapshot_view.h"

namespace urnic {
namespace {

// What belongs to a process and to none of its ports comes from each port.
void DropRepeated(std::vector<Facts>& objects) {
  std::set<std::string> seen;
  std::erase_if(objects, [&](const Facts& object) {
    const std::string* const link = object.Find("link");
    return link != nullptr && *link == "-" &&
           !seen.insert(FactLine(object, /*details=*/true)).second;
  });
}

}  // namespace

void AddFactQuery(Command& command, FactQuery* query) {
  command.AddOption("FILTER", &query->filters,
                    "Only what has this value: lqpn 17");
  AddProcessOption(command, &query->process);
  command.AddOption("-d,--details", &query->details,
                    "Print everything that is known");
  command.AddOption("-j,--json", &query->json, "Print JSON");
  command.AddOption("-p,--pretty", &query->pretty, "Print indented JSON");
}

absl::StatusOr<std::vector<FactFilter>> FiltersOf(const FactQuery& query) {
  auto filters = ParseFilters(query.filters);
  if (!filters.ok()) return filters;
  if (absl::Status s = CheckNumbers(*filters); !s.ok()) return s;
  return filters;
}

absl::StatusOr<std::vector<RnicProcess>> ProgramsOf(
    const FactQuery& query, const std::vector<FactFilter>& filters) {
  auto found = FindRnics("", query.process);
  if (!found.ok()) return found;
  std::erase_if(*found, [&](const RnicProcess& rnic) {
    return rnic.pid != 0 && !MayMatch("pid", absl::StrCat(rnic.pid), filters);
  });
  return found;
}

namespace {

absl::StatusOr<Answers> AskPrograms(const FactQuery& query,
                                    const std::vector<FactFilter>& filters,
                                    const std::string& kind,
                                    const char* command) {
  auto found = ProgramsOf(query, filters);
  if (!found.ok()) return found.status();
  Answers answers;
  answers.objects = ObjectsOfAll(*found, kind, command, &answers.complete);
  return answers;
}

absl::StatusOr<Answers> AskRecording(const FactQuery& query,
                                     const std::string& kind,
                                     const char* command) {
  const auto answer = RecordedAnswer(query.from, "show " + kind, command);
  if (!answer.ok()) return answer.status();
  auto objects = ParseFactList(answer->text);
  if (!objects.ok()) return objects.status();
  return Answers{.objects = *std::move(objects), .complete = !answer->is_cut};
}

}  // namespace

absl::StatusOr<Answers> Ask(const FactQuery& query, const std::string& kind,
                            const char* command) {
  const auto filters = FiltersOf(query);
  if (!filters.ok()) return filters.status();
  auto answers = kind == kRecordings ? Answers{.objects = RecordingsOfUser()}
                 : query.from.empty()
                     ? AskPrograms(query, *filters, kind, command)
                     : AskRecording(query, kind, command);
  if (!answers.ok()) return answers;
  auto& objects = answers->objects;
  DropRepeated(objects);
  if (kind == "snapshot") DecodeImages(objects);
  if (absl::Status s = CheckNames(objects, *filters); !s.ok()) return s;
  std::erase_if(objects, [&](const Facts& o) { return !Matches(o, *filters); });
  return answers;
}

void Print(const std::vector<Facts>& objects, const FactQuery& query) {
  if (query.json || query.pretty) {
    std::puts(JsonOf(objects, query.details, query.pretty).c_str());
    return;
  }
  for (const Facts& object : objects)
    std::puts(FactLine(object, query.details).c_str());
}

}  // namespace urnic
