#include "verbs/cli/rnic_command.h"

#include <cstdio>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "verbs/cli/rnic_process.h"

namespace urnic {
namespace {

constexpr std::string_view kRemove = "del";

struct Arguments {
  RnicCommand what;
  std::string device;
  std::vector<std::string> value;
  std::string process;
};

int Complain(const Arguments& arguments, const absl::Status& status) {
  std::fprintf(stderr, "urnic %s: %s\n", arguments.what.name,
               std::string(status.message()).c_str());
  return kExitFailed;
}

void Print(const Arguments& arguments, const std::string& answer) {
  for (const auto line : absl::StrSplit(answer, '\n', absl::SkipEmpty())) {
    arguments.what.print(std::string(line));
  }
}

int List(const Arguments& arguments) {
  auto found = FindRnics(arguments.device, arguments.process);
  if (!found.ok()) return Complain(arguments, found.status());
  int exit_status = kExitOk;
  const auto answers = AskRnics(*found, arguments.what.name);
  for (size_t i = 0; i != answers.size(); ++i) {
    const RnicProcess& rnic = (*found)[i];
    if (absl::IsNotFound(answers[i].status())) continue;
    if (!answers[i].ok()) {
      exit_status = Complain(arguments, answers[i].status());
      continue;
    }
    std::printf("%s, %s\n", rnic.device.c_str(), rnic.Describe().c_str());
    Print(arguments, *answers[i]);
  }
  return exit_status;
}

int Change(const char* verb, const Arguments& arguments) {
  const std::string value = absl::StrJoin(arguments.value, " ");
  const absl::Status good = arguments.what.check(value);
  if (!good.ok()) {
    (void)Complain(arguments, good);
    return kExitUsage;
  }
  auto rnic = FindOneRnic(arguments.device, arguments.process);
  if (!rnic.ok()) return Complain(arguments, rnic.status());
  const auto answer =
      AskRnic(*rnic, absl::StrCat(arguments.what.name, " ", verb, " ", value));
  if (answer.ok()) {
    Print(arguments, *answer);
    return kExitOk;
  }
  // Some programs end as soon as their connection does.
  const bool has_ended = absl::IsUnavailable(answer.status()) &&
                         !FindRnics(rnic->device, rnic->directory).ok();
  if (!has_ended) return Complain(arguments, answer.status());
  std::fprintf(stderr, "urnic %s: the program ended before it answered\n",
               arguments.what.name);
  return verb == kRemove ? kExitOk : kExitFailed;
}

void AddChange(Command& command, const char* verb, const std::string& help,
               const std::shared_ptr<Arguments>& arguments) {
  Command& change = command.AddSubcommand(
      verb, help, [verb, arguments] { return Change(verb, *arguments); });
  change.AddOption("DEVICE", &arguments->device, "for example urnic0",
                   {.required = true});
  change.AddOption(
      arguments->what.value, &arguments->value, arguments->what.value_help,
      {.required = true, .most_words = arguments->what.value_is_words ? 0 : 1});
}

}  // namespace

int Complain(const char* command, const absl::Status& status) {
  std::fprintf(stderr, "urnic %s: %s\n", command,
               std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitFailed;
}

void AddProcessOption(Command& command, std::string* process) {
  command.AddOption(
      "--process", process,
      "Only this program: its pid, or its run directory, which urnic addr "
      "prints",
      {.type = "PID|DIR"});
}

void AddRnicCommand(Command& urnic, const RnicCommand& what) {
  auto arguments = std::make_shared<Arguments>();
  arguments->what = what;
  Command& command = urnic.AddSubcommand(
      what.name, what.help, [arguments] { return List(*arguments); });
  const std::string usage = absl::StrCat("urnic ", what.name, " [--process P]");
  command.SetUsage(absl::StrCat(usage, "\n       ", usage, " add DEVICE ",
                                what.value, what.add_option, "\n       ", usage,
                                " del DEVICE ", what.value));
  command.SetFooter(
      "A change lasts until the program ends. You can change programs of the "
      "same user; root can change all.");
  AddProcessOption(command, &arguments->process);
  AddChange(command, "add", absl::StrCat("Add ", what.one), arguments);
  AddChange(command, kRemove.data(), absl::StrCat("Remove ", what.one),
            arguments);
}

}  // namespace urnic
