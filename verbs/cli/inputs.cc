#include <CLI/CLI.hpp>
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

void AddInputsCommand(CLI::App& app, int* exit_status) {
  CLI::App* const command = app.add_subcommand(
      kCommand, "Log what a queue pair is given, to replay it later");
  command->footer(
      "urnic show inputs lists the logs. They are in the recordings of the "
      "program, and in urnic dump --payload. A checkout of uRNIC replays them: "
      "./dev sim --replay FILE. Programs of the same user; root reaches all.");
  auto arguments = std::make_shared<InputsArguments>();
  command
      ->add_option("VERB", arguments->verb,
                   "start: log from now on; stop: no longer, and drop the log")
      ->required()
      ->check(CLI::IsMember({"start", "stop"}))
      ->configurable(false);
  command->add_option("QPN", arguments->qpn, "The number of the queue pair")
      ->required()
      ->check(CLI::Range(1u, 0xffffffu))
      ->configurable(false);
  AddProcessOption(*command, &arguments->process);
  command
      ->add_option("--kib", arguments->kib,
                   "start: room for the log; 256 if it is not given")
      ->type_name("KIB")
      ->check(CLI::Range(InputLog::kBytesMin >> 10, InputLog::kBytesMax >> 10))
      ->configurable(false);
  command->callback(
      [arguments, exit_status] { *exit_status = Ask(*arguments); });
}

}  // namespace urnic
