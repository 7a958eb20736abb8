#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "verbs/cli/command.h"
#include "verbs/cli/rnic_process.h"

namespace urnic {
namespace {

struct AddrArguments {
  std::string device;
  std::string address;
  std::string process;
};

int Complain(const absl::Status& status) {
  std::fprintf(stderr, "urnic addr: %s\n",
               std::string(status.message()).c_str());
  return kExitFailed;
}

// "10.1.0.1/24   GID 2 (RoCE v1), 3 (v2)" of a line "2 10.1.0.1/24".
void PrintAddress(const std::string& line) {
  const std::vector<std::string> word = absl::StrSplit(line, ' ');
  int index;
  if (word.size() != 2 || !absl::SimpleAtoi(word[0], &index)) return;
  std::printf("  %-44s GID %2d (RoCE v1), %2d (v2)\n", word[1].c_str(), index,
              index + 1);
}

void PrintAddresses(const std::string& answer) {
  for (const auto line : absl::StrSplit(answer, '\n')) {
    PrintAddress(std::string(line));
  }
}

int List(const AddrArguments& arguments) {
  auto found = FindRnics(arguments.device, arguments.process);
  if (!found.ok()) return Complain(found.status());
  int exit_status = kExitOk;
  for (const RnicProcess& rnic : *found) {
    const auto answer = AskRnic(rnic, "addr");
    if (!answer.ok()) {
      exit_status = Complain(answer.status());
      continue;
    }
    std::printf("%s, %s\n", rnic.device.c_str(), rnic.Describe().c_str());
    PrintAddresses(*answer);
  }
  return exit_status;
}

int Change(const char* verb, const AddrArguments& arguments) {
  auto rnic = FindOneRnic(arguments.device, arguments.process);
  if (!rnic.ok()) return Complain(rnic.status());
  const auto answer =
      AskRnic(*rnic, absl::StrCat("addr ", verb, " ", arguments.address));
  if (!answer.ok()) return Complain(answer.status());
  PrintAddresses(*answer);
  return kExitOk;
}

void AddChange(CLI::App& parent, const char* verb, const char* help,
               const std::shared_ptr<AddrArguments>& arguments,
               int* exit_status) {
  CLI::App* command = parent.add_subcommand(verb, help);
  command->fallthrough();  // --process may stand behind it
  command->add_option("DEVICE", arguments->device, "urnic0, for instance")
      ->required();
  command->add_option("IP/LEN", arguments->address, "10.1.0.1/24 or fd01::1/64")
      ->required();
  command->callback([verb, arguments, exit_status] {
    *exit_status = Change(verb, *arguments);
  });
}

}  // namespace

void AddAddrCommand(CLI::App& app, int* exit_status) {
  CLI::App* command = app.add_subcommand(
      "addr", "Show and change the addresses of running programs' RNICs");
  command->footer(
      "usage: urnic addr [--process P]\n"
      "       urnic addr [--process P] add DEVICE IP/LEN\n"
      "       urnic addr [--process P] del DEVICE IP/LEN\n"
      "A change lasts until that program ends. Programs of the same user, or "
      "of all for root.");
  auto arguments = std::make_shared<AddrArguments>();
  command
      ->add_option("--process", arguments->process,
                   "Where several programs have a device of that name open: "
                   "the pid, or the run directory")
      ->type_name("PID|DIR")
      ->configurable(false);
  command->require_subcommand(0, 1);
  AddChange(*command, "add", "Add an address", arguments, exit_status);
  AddChange(*command, "del", "Remove an address", arguments, exit_status);
  command->callback([command, arguments, exit_status] {
    if (command->get_subcommands().empty()) *exit_status = List(*arguments);
  });
}

}  // namespace urnic
