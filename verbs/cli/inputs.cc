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

struct InputsArguments {
  uint32_t qpn = 0;
  uint32_t kib = 256;
  std::string process;
};

// All RNICs of a host have different numbers, so one at most has this one.
int Ask(const InputsArguments& arguments, const std::string& request) {
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
    // What the program that has it says comes before what others say.
    if (refused.ok() ||
        answer.status().message().find("there is no") == std::string::npos) {
      refused = answer.status();
    }
  }
  return Complain(kCommand, refused);
}

CLI::App* AddPart(CLI::App& command, const char* name, const char* help,
                  InputsArguments& arguments) {
  CLI::App* const part = command.add_subcommand(name, help);
  part->add_option("QPN", arguments.qpn, "The number of the queue pair")
      ->required()
      ->check(CLI::Range(1u, 0xffffffu))
      ->configurable(false);
  AddProcessOption(*part, &arguments.process);
  return part;
}

}  // namespace

void AddInputsCommand(CLI::App& app, int* exit_status) {
  CLI::App* const command = app.add_subcommand(
      kCommand, "Log what a queue pair is given, to replay it later");
  command->footer(
      "urnic show inputs lists the logs. They are in the recordings of the "
      "program, and in urnic dump --payload. A checkout of uRNIC replays them: "
      "./dev sim --replay FILE. Programs of the same user; root reaches all.");
  command->require_subcommand(1);
  auto arguments = std::make_shared<InputsArguments>();
  CLI::App* const start =
      AddPart(*command, "start", "Log from now on", *arguments);
  start
      ->add_option("--kib", arguments->kib,
                   "Room for the log; 256 if it is not given")
      ->type_name("KIB")
      ->check(CLI::Range(InputLog::kBytesMin >> 10, InputLog::kBytesMax >> 10))
      ->configurable(false);
  start->callback([arguments, exit_status] {
    *exit_status = Ask(*arguments, absl::StrCat("inputs start ", arguments->qpn,
                                                " ", arguments->kib));
  });
  AddPart(*command, "stop", "No longer, and drop the log", *arguments)
      ->callback([arguments, exit_status] {
        *exit_status =
            Ask(*arguments, absl::StrCat("inputs stop ", arguments->qpn));
      });
}

}  // namespace urnic
