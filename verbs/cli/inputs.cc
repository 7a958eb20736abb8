#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ras/inputs/input_log.h"
#include "verbs/cli/command.h"
#include "verbs/cli/rnic_command.h"
#include "verbs/cli/rnic_process.h"

namespace urnic {
namespace {

constexpr char kCommand[] = "inputs";
// In the answer of a program (verbs/control/input_logs.cc).
constexpr char kNoQueuePair[] = "there is no queue pair";

struct InputsArguments {
  std::string verb;
  uint32_t qpn = 0;
  uint32_t kib = 256;
  std::string process;
};

// All RNICs of a host have different numbers, so one at most has this one.
int Ask(const InputsArguments& arguments) {
  std::string request =
      absl::StrCat("inputs ", arguments.verb, " ", arguments.qpn);
  if (arguments.verb == "start") absl::StrAppend(&request, " ", arguments.kib);
  const auto found = FindRnics("", arguments.process);
  if (!found.ok()) return Complain(kCommand, found.status());
  absl::Status refused;
  for (const RnicProcess& rnic : *found) {
    const auto answer = AskRnic(rnic, request);
    if (answer.ok()) {
      std::fprintf(stderr, "urnic %s: queue pair %u of %s, %s\n", kCommand,
                   arguments.qpn, rnic.device.c_str(), rnic.Describe().c_str());
      return kExitOk;
    }
    // Those that do not have it say so, and only one says something else.
    const bool has_none =
        answer.status().message().find(kNoQueuePair) != std::string::npos;
    if (refused.ok() || !has_none) refused = answer.status();
  }
  return Complain(kCommand, refused);
}

}  // namespace

void AddInputsCommand(Command& urnic) {
  auto arguments = std::make_shared<InputsArguments>();
  Command& command = urnic.AddSubcommand(
      kCommand, "Log what a queue pair is given, to replay it later",
      [arguments] { return Ask(*arguments); });
  command.SetFooter(
      "urnic show inputs lists the logs. They are in the recordings of the "
      "program, and in urnic dump --payload. A checkout of uRNIC replays them: "
      "./dev sim --replay FILE. Programs of the same user; root reaches all.");
  command.AddOption("VERB", &arguments->verb,
                    "start: log from now on; stop: no longer, and drop the log",
                    {.one_of = "start,stop", .required = true});
  command.AddOption("QPN", &arguments->qpn, "The number of the queue pair",
                    {.range = {1, 0xffffff}, .required = true});
  AddProcessOption(command, &arguments->process);
  command.AddOption(
      "--kib", &arguments->kib,
      "start: room for the log; 256 if it is not given",
      {.type = "KIB",
       .range = {InputLog::kBytesMin >> 10, InputLog::kBytesMax >> 10}});
}

}  // namespace urnic
