#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "verbs/abi/device_identity.h"
#include "verbs/cli/command.h"

namespace {

// CLI11 would only say that a subcommand is required.
bool IsUnknownSubcommand(const CLI::App& app, const std::string& word) {
  if (word.starts_with('-')) return false;
  const auto commands = app.get_subcommands(nullptr);
  return std::none_of(
      commands.begin(), commands.end(),
      [&](const CLI::App* command) { return command->get_name() == word; });
}

int RefuseSubcommand(const CLI::App& app, const std::string& word) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands(nullptr))
    names += (names.empty() ? "" : ", ") + command->get_name();
  std::fprintf(stderr, "urnic: \"%s\" is no subcommand; there are %s\n",
               word.c_str(), names.c_str());
  return urnic::kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("uRNIC: an RDMA NIC in user space", "urnic");
  app.set_version_flag("--version", "urnic " URNIC_FW_VERSION);
  app.require_subcommand(1);
  int exit_status = urnic::kExitOk;
  std::vector<std::string> program;
  urnic::AddRunCommand(app, &program, &exit_status);
  urnic::AddAddrCommand(app, &exit_status);
  urnic::AddDemoCommand(app, &exit_status);
  urnic::AddDoctorCommand(app, &exit_status);
  std::vector<std::string> args(argv + 1, argv + argc);
  if (!args.empty() && IsUnknownSubcommand(app, args.front()))
    return RefuseSubcommand(app, args.front());
  program = urnic::SplitProgram(app, &args);
  // CLI11 takes a vector from its end.
  std::reverse(args.begin(), args.end());
  try {
    app.parse(args);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? urnic::kExitOk : urnic::kExitUsage;
  }
  return exit_status;
}
