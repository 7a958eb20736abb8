#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "verbs/cli/command.h"
#include "verbs/cli/did_you_mean.h"
#include "verbs/cli/fact_list.h"
#include "verbs/cli/rnic_command.h"
#include "verbs/cli/rnic_facts.h"
#include "verbs/cli/rnic_process.h"

namespace urnic {
namespace {

struct ShowArguments {
  std::string kind = "dev";
  std::vector<std::string> filters;
  std::string process;
  bool details = false;
  bool json = false;
  bool pretty = false;
};

int Complain(const absl::Status& status) {
  std::fprintf(stderr, "urnic show: %s\n",
               std::string(status.message()).c_str());
  return kExitFailed;
}

void Print(const std::vector<Facts>& objects, const ShowArguments& arguments) {
  if (arguments.json || arguments.pretty) {
    std::puts(FactsJson(objects, arguments.details, arguments.pretty).c_str());
    return;
  }
  for (const Facts& object : objects)
    std::puts(FactLine(object, arguments.details).c_str());
}

// What belongs to a process and to none of its ports comes from each port.
void DropRepeated(std::vector<Facts>& objects) {
  std::set<std::string> seen;
  std::erase_if(objects, [&](const Facts& object) {
    const std::string* const link = object.Find("link");
    return link != nullptr && *link == "-" &&
           !seen.insert(FactLine(object, /*details=*/true)).second;
  });
}

// Empty: it is one.
std::string KindMistake(const std::string& kind) {
  const std::vector<std::string> kinds = {
      "dev", "link", "qp",    "cq",  "mr",    "mw",    "pd",
      "srq", "ah",   "cm_id", "tcp", "event", "error", "stat"};
  if (std::ranges::count(kinds, kind) != 0) return "";
  const std::string advice = DidYouMean(kind, kinds);
  return absl::StrCat("unknown kind \"", kind, "\"",
                      advice.empty() ? absl::StrCat("; the kinds are ",
                                                    absl::StrJoin(kinds, ", "))
                                     : advice);
}

int Show(const ShowArguments& arguments) {
  if (const std::string mistake = KindMistake(arguments.kind);
      !mistake.empty()) {
    (void)Complain(absl::InvalidArgumentError(mistake));
    return kExitUsage;
  }
  const auto filters = ParseFilters(arguments.filters);
  if (!filters.ok()) {
    (void)Complain(filters.status());
    return kExitUsage;
  }
  auto found = FindRnics("", arguments.process);
  if (!found.ok()) return Complain(found.status());
  // Without a word to the others: a stopped one would let us wait.
  std::erase_if(*found, [&](const RnicProcess& rnic) {
    return rnic.pid != 0 && !MayMatch("pid", absl::StrCat(rnic.pid), *filters);
  });
  bool all_answered = true;
  auto all = ObjectsOfAll(*found, arguments.kind, "show", &all_answered);
  DropRepeated(all);
  if (absl::Status s = CheckNames(all, *filters); !s.ok()) return Complain(s);
  std::erase_if(all, [&](const Facts& o) { return !Matches(o, *filters); });
  Print(all, arguments);
  return all_answered ? kExitOk : kExitFailed;
}

}  // namespace

void AddShowCommand(CLI::App& app, int* exit_status) {
  CLI::App* command = app.add_subcommand(
      "show", "List the objects of RNICs in running programs");
  command->footer(
      "KIND is dev (the default), link, qp, cq, mr, mw, pd, srq, ah, cm_id, "
      "tcp, event, error or stat. "
      "FILTER is a name and its value, as they are printed; values may be "
      "lists and "
      "ranges: urnic show qp lqpn 17,20-30 type RC. Shows programs of the same "
      "user; root sees all.");
  auto arguments = std::make_shared<ShowArguments>();
  command->add_option("KIND", arguments->kind, "The kind of object")
      ->configurable(false);
  command
      ->add_option("FILTER", arguments->filters,
                   "Only objects with this value: lqpn 17")
      ->configurable(false);
  AddProcessOption(*command, &arguments->process);
  command->add_flag("-d,--details", arguments->details,
                    "Everything that is known of each object");
  command->add_flag("-j,--json", arguments->json, "Print JSON");
  command->add_flag("-p,--pretty", arguments->pretty, "Print indented JSON");
  command->callback(
      [arguments, exit_status] { *exit_status = Show(*arguments); });
}

}  // namespace urnic
