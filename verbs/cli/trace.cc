#include "ras/trace/trace.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "verbs/cli/command.h"
#include "verbs/cli/ctf.h"
#include "verbs/cli/fact_query.h"
#include "verbs/cli/filter_check.h"
#include "verbs/cli/rnic_command.h"
#include "verbs/cli/rnic_process.h"

namespace urnic {
namespace {

constexpr char kCommand[] = "trace";

struct TraceArguments {
  FactQuery query;
  bool levels = false;
  // An empty text is a mistake, and does not mean that there is no option.
  bool sets = false;
  bool writes_ctf = false;
  std::string set;
  std::string ctf;
};

int Set(const TraceArguments& arguments) {
  // A mistake must not reach half of the programs.
  TraceLevels unused;
  std::string mistake;
  if (!SetTraceLevels(arguments.set, unused, mistake))
    return Complain(kCommand, absl::InvalidArgumentError(mistake));
  const auto filters = FiltersOf(arguments.query);
  if (!filters.ok()) return Complain(kCommand, filters.status());
  for (const FactFilter& filter : *filters) {
    if (filter.name != "pid") {
      return Complain(kCommand, absl::InvalidArgumentError(absl::StrCat(
                                    "--set knows the filter pid only, not \"",
                                    filter.name, "\"")));
    }
  }
  const auto found = ProgramsOf(arguments.query, *filters);
  if (!found.ok()) return Complain(kCommand, found.status());
  if (found->empty())
    return Complain(
        kCommand, absl::NotFoundError("no program with this pid has an RNIC"));
  int exit_status = kExitOk;
  const auto answers = AskRnics(*found, absl::StrCat("trace ", arguments.set));
  for (size_t i = 0; i != answers.size(); ++i) {
    const RnicProcess& rnic = (*found)[i];
    const auto& answer = answers[i];
    if (answer.ok() || absl::IsNotFound(answer.status())) continue;
    exit_status =
        Complain(kCommand, absl::IsUnavailable(answer.status())
                               ? answer.status()
                               : absl::FailedPreconditionError(absl::StrCat(
                                     rnic.device, " of ", rnic.Describe(), ": ",
                                     std::string(answer.status().message()))));
  }
  return exit_status;
}

// Programs answer one after another.
void SortByTime(std::vector<Facts>& events) {
  const auto time = [](const Facts& event) {
    const std::string* const ns = event.Find("at-ns");
    return ns == nullptr ? 0ull : std::strtoull(ns->c_str(), nullptr, 10);
  };
  std::ranges::stable_sort(events, {}, time);
}

absl::Status WriteFile(const std::filesystem::path& path,
                       const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(path.string(), ": ", std::strerror(errno)));
}

absl::Status WriteCtf(const std::vector<Facts>& events,
                      const std::string& directory) {
  std::error_code error;
  const bool is_new = std::filesystem::create_directory(directory, error);
  if (!error && !std::filesystem::is_empty(directory, error) && !error)
    error = std::make_error_code(std::errc::directory_not_empty);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat(directory, ": ", error.message()));
  }
  CtfTrace trace;
  for (const Facts& event : events) trace.Add(event);
  std::map<std::string, std::string> files = {{"metadata", trace.Metadata()}};
  for (const auto& [pid, stream] : trace.streams())
    files.emplace("pid-" + pid, stream);
  const std::filesystem::path root(directory);
  absl::Status status;
  for (auto at = files.begin(); at != files.end() && status.ok(); ++at)
    status = WriteFile(root / at->first, at->second);
  if (status.ok()) return status;
  // A part is of no use, and a second try needs an empty directory.
  for (const auto& [name, content] : files)
    std::filesystem::remove(root / name, error);
  if (is_new) std::filesystem::remove(root, error);
  return status;
}

// Other than those of an object, what an event can be is known.
absl::Status CheckFilters(const FactQuery& query) {
  const auto filters = FiltersOf(query);
  if (!filters.ok()) return filters.status();
  std::vector<std::string> levels;
  for (int level = trace_level::kOff; level <= trace_level::kData; ++level)
    levels.push_back(absl::StrCat(level));
  std::vector<std::string> components;
  for (const TraceComponentWords& each : kTraceComponents)
    components.emplace_back(each.name);
  std::vector<std::string> points;
  for (const TracePointWords& each : kTracePoints)
    points.emplace_back(each.name);
  absl::Status status = CheckValues(*filters, "level", levels);
  if (status.ok()) status = CheckValues(*filters, "component", components);
  if (status.ok()) status = CheckValues(*filters, "point", points);
  return status;
}

int Run(const TraceArguments& arguments) {
  if (arguments.sets) return Set(arguments);
  if (absl::Status s = CheckFilters(arguments.query); !s.ok())
    return Complain(kCommand, s);
  auto answers = Ask(arguments.query,
                     arguments.levels ? "trace-level" : "trace", kCommand);
  if (!answers.ok()) return Complain(kCommand, answers.status());
  SortByTime(answers->objects);
  if (!arguments.writes_ctf) {
    Print(answers->objects, arguments.query);
  } else if (absl::Status s = WriteCtf(answers->objects, arguments.ctf);
             !s.ok()) {
    return Complain(kCommand, s);
  }
  return answers->complete ? kExitOk : kExitFailed;
}

}  // namespace

void AddTraceCommand(Command& urnic) {
  auto arguments = std::make_shared<TraceArguments>();
  Command& command = urnic.AddSubcommand(
      kCommand,
      "Print what RNICs in running programs did, or how much of it they keep",
      [arguments] { return Run(*arguments); });
  command.SetFooter(
      "LEVELS is COMPONENT=LEVEL, or all=LEVEL, with commas between several: "
      "urnic trace --set receive=8,verbs=4 pid 4711. COMPONENT is verbs, qp, "
      "cm, "
      "receive, transmit or completion. Levels: 0 nothing, 1 errors, 2 rare "
      "events (the default), 4 calls, 5 details of calls, 7 each burst of "
      "packets, 8 each packet and completion, 9 the first bytes of each frame. "
      "FILTER is a name and its value, as they are printed: urnic trace lqpn "
      "17 "
      "level 1-2. Shows programs of the same user; root sees all.");
  AddFactQuery(command, &arguments->query);
  command.AddOption("--levels", &arguments->levels,
                    "Print the level of each component");
  command.AddOption("--set", &arguments->set, "Set the levels of components",
                    {.type = "LEVELS",
                     .excludes = "--levels,--details,--json,--pretty",
                     .given = &arguments->sets});
  command.AddOption("--ctf", &arguments->ctf,
                    "Write the events for babeltrace2 into this directory",
                    {.type = "DIR",
                     .excludes = "--levels,--set,--details,--json,--pretty",
                     .given = &arguments->writes_ctf});
}

}  // namespace urnic
