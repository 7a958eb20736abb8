#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "verbs/cli/command.h"
#include "verbs/cli/did_you_mean.h"
#include "verbs/cli/fact_query.h"
#include "verbs/cli/recorded.h"
#include "verbs/cli/rnic_command.h"

namespace urnic {
namespace {

constexpr char kCommand[] = "show";
constexpr char kOffenders[] = "offender";

struct ShowArguments {
  std::string kind = "dev";
  FactQuery query;
};

absl::Status CheckKind(const std::string& kind) {
  const std::vector<std::string> kinds = {
      "dev",      "link",   "qp",    "cq",     "mr",       "mw",    "pd",
      "srq",      "ah",     "cm_id", "tcp",    "event",    "error", "snapshot",
      kOffenders, "inputs", "stat",  "memory", kRecordings};
  if (std::ranges::count(kinds, kind) != 0) return absl::OkStatus();
  const std::string advice = DidYouMean(kind, kinds);
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown kind \"", kind, "\"",
      advice.empty()
          ? absl::StrCat("; the kinds are ", absl::StrJoin(kinds, ", "))
          : advice));
}

int Show(const ShowArguments& arguments) {
  if (absl::Status s = CheckKind(arguments.kind); !s.ok())
    return Complain(kCommand, s);
  const bool is_recorded =
      arguments.kind != kRecordings && arguments.kind != kOffenders;
  if (!is_recorded && !arguments.query.from.empty()) {
    return Complain(kCommand, absl::InvalidArgumentError(absl::StrCat(
                                  "a recording does not list ", arguments.kind,
                                  "s: leave --from out")));
  }
  const auto answers = Ask(arguments.query, arguments.kind, kCommand);
  if (!answers.ok()) return Complain(kCommand, answers.status());
  Print(answers->objects, arguments.query);
  return answers->complete ? kExitOk : kExitFailed;
}

}  // namespace

void AddShowCommand(Command& urnic) {
  auto arguments = std::make_shared<ShowArguments>();
  Command& command = urnic.AddSubcommand(
      "show", "List the objects of RNICs in running programs",
      [arguments] { return Show(*arguments); });
  command.SetFooter(
      "KIND is dev (the default), link, qp, cq, mr, mw, pd, srq, ah, cm_id, "
      "tcp, event, error, snapshot, offender, inputs, stat, memory or "
      "recording. "
      "FILTER is a name and its value, as they are printed; values may be "
      "lists and ranges: urnic show qp lqpn 17,20-30 type RC. Shows programs "
      "of the same user; root sees all.");
  command.AddOption("KIND", &arguments->kind, "The kind of object");
  AddFactQuery(command, &arguments->query);
  AddFromOption(command, &arguments->query.from);
}

}  // namespace urnic
