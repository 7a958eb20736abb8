#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ras/facts/facts.h"
#include "ras/facts/facts_json.h"
#include "verbs/cli/command.h"
#include "verbs/cli/fact_list.h"
#include "verbs/cli/leftovers.h"

namespace urnic {
namespace {

struct CleanArguments {
  bool dry_run = false;
  bool recordings = false;
  bool json = false;
};

Facts FactsOf(const LeftOver& left, bool dry_run) {
  std::string line;
  {
    FactWriter facts("leftover", line);
    facts.Add("what", left.what);
    facts.Add("path", left.path);
    if (left.pid != 0) facts.Add("pid", left.pid);
    if (!left.program.empty()) facts.Add("comm", left.program);
    facts.Add("age-s", left.age_s);
    if (left.bytes != 0) facts.Add("bytes", left.bytes);
    facts.Add("result", dry_run              ? "found"
                        : left.error.empty() ? "removed"
                                             : "failed");
    if (!left.error.empty()) facts.Add("why", left.error);
  }
  line.pop_back();
  return ParseFacts(line).value_or(Facts{});
}

std::string Totals(const LeftOvers& all, size_t failed, bool dry_run) {
  const size_t found = all.list.size();
  std::string text = found == 0 ? "nothing to remove"
                     : dry_run  ? absl::StrCat(found, " found, none removed")
                                : absl::StrCat(found - failed, " removed");
  if (failed != 0) absl::StrAppend(&text, ", ", failed, " failed");
  if (all.recordings_kept != 0) {
    absl::StrAppend(&text, "; kept on purpose: ", all.recordings_kept,
                    " recordings of ended programs (--recordings)");
  }
  return text;
}

int Clean(const CleanArguments& arguments) {
  const LeftOvers all = CleanLeftOvers(
      {.remove = !arguments.dry_run, .recordings = arguments.recordings});
  const auto failed = static_cast<size_t>(std::ranges::count_if(
      all.list, [](const LeftOver& left) { return !left.error.empty(); }));
  std::vector<Facts> objects;
  for (const LeftOver& left : all.list)
    objects.push_back(FactsOf(left, arguments.dry_run));
  if (arguments.json) {
    std::puts(JsonOf(objects, /*details=*/true, /*pretty=*/false).c_str());
  } else {
    for (const Facts& object : objects)
      std::puts(FactLine(object, /*details=*/true).c_str());
    std::puts(Totals(all, failed, arguments.dry_run).c_str());
  }
  return failed == 0 ? kExitOk : kExitFailed;
}

}  // namespace

void AddCleanCommand(Command& urnic) {
  auto arguments = std::make_shared<CleanArguments>();
  Command& command = urnic.AddSubcommand(
      "clean", "List and remove what programs that died have left behind",
      [arguments] { return Clean(*arguments); });
  command.SetFooter(
      "Nothing of a live program is touched, and no file at a path that you "
      "chose. Recordings are kept on purpose: they say why a program died. Of "
      "other users, root removes the run directories.");
  command.AddOption("-n,--dry-run", &arguments->dry_run,
                    "Only list, remove nothing");
  command.AddOption("--recordings", &arguments->recordings,
                    "Also remove the recordings of programs that died");
  command.AddOption("-j,--json", &arguments->json, "Print JSON");
}

}  // namespace urnic
