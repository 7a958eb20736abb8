#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "transport/work/image.h"
#include "verbs/cli/command.h"
#include "verbs/cli/image_view.h"
#include "verbs/cli/rnic_process.h"

namespace urnic {
namespace {

struct StateArguments {
  std::string device;
  std::string process;
  uint32_t qpn = 0;  // 0: all, in short
};

int Complain(const std::string& what) {
  std::fprintf(stderr, "urnic state: %s\n", what.c_str());
  return kExitFailed;
}

void Print(const ImageView& view, const StateArguments& arguments) {
  if (arguments.qpn == 0) std::printf("  %s\n", view.line.c_str());
  if (arguments.qpn == view.qpn) std::fputs(view.members.c_str(), stdout);
}

// One image behind the other. False: something else is among them.
bool PrintImages(const std::string& answer, const StateArguments& arguments) {
  std::span<const uint8_t> rest(reinterpret_cast<const uint8_t*>(answer.data()),
                                answer.size());
  while (!rest.empty()) {
    const size_t bytes = ImageLength(rest);
    if (bytes == 0 || bytes > rest.size()) {
      Complain("the answer is not one of images");
      return false;
    }
    const auto view = ViewImage(rest.first(bytes));
    if (!view.ok()) {
      Complain("an image is not good: " + std::string(view.status().message()));
      return false;
    }
    Print(*view, arguments);
    rest = rest.subspan(bytes);
  }
  return true;
}

int Show(const StateArguments& arguments) {
  const auto found = FindRnics(arguments.device, arguments.process);
  if (!found.ok()) return Complain(std::string(found.status().message()));
  int exit_status = kExitOk;
  for (const RnicProcess& rnic : *found) {
    const auto answer = AskRnic(rnic, "state");
    if (!answer.ok()) {
      exit_status = Complain(std::string(answer.status().message()));
      continue;
    }
    std::printf("%s, %s\n", rnic.device.c_str(), rnic.Describe().c_str());
    if (!PrintImages(*answer, arguments)) exit_status = kExitFailed;
  }
  return exit_status;
}

}  // namespace

void AddStateCommand(CLI::App& app, int* exit_status) {
  CLI::App* command = app.add_subcommand(
      "state",
      "Show the state of queue pairs and connections of running programs");
  command->footer(
      "One line for each queue pair, and for each connection of rdma_cm; with "
      "--qp all that one holds, and its connection. Programs of the same user, "
      "or of all for root.");
  auto arguments = std::make_shared<StateArguments>();
  command->add_option("DEVICE", arguments->device, "urnic0, for instance")
      ->configurable(false);
  command
      ->add_option("--process", arguments->process,
                   "Only of this program: the pid, or the run directory")
      ->type_name("PID|DIR")
      ->configurable(false);
  command
      ->add_option("--qp", arguments->qpn,
                   "All members of the queue pair of this number")
      ->type_name("QPN")
      ->configurable(false);
  command->callback(
      [arguments, exit_status] { *exit_status = Show(*arguments); });
}

}  // namespace urnic
