#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "verbs/cli/command.h"
#include "verbs/identity/device_identity.h"

namespace {

// "help [SUBCOMMAND]" is "[SUBCOMMAND] --help".
void TranslateHelp(std::vector<std::string>* args) {
  if (args->empty() || args->front() != "help") return;
  args->erase(args->begin());
  args->insert(args->begin() + (args->empty() ? 0 : 1), "--help");
}

// CLI11 would only say that a subcommand is required. Empty: no mistake.
std::string SubcommandMistake(const CLI::App& app,
                              const std::vector<std::string>& args) {
  if (!args.empty() && args.front().starts_with('-')) return "";
  std::string names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (!args.empty() && command->get_name() == args.front()) return "";
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  const std::string what = args.empty()
                               ? "no subcommand"
                               : "unknown subcommand \"" + args.front() + '"';
  return what + "; the subcommands are " + names + "; for help: urnic help";
}

int Complain(const std::string& who, const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", who.c_str(), what.c_str());
  return urnic::kExitUsage;
}

// The text of CLI11's error, rewritten where it would not fit into a sentence.
std::string Describe(const CLI::App& command, const CLI::ParseError& error) {
  if (error.get_exit_code() ==
      static_cast<int>(CLI::ExitCodes::ArgumentMismatch)) {
    for (const CLI::Option* option : command.get_options()) {
      const std::string name = option->get_name();
      if (!std::string(error.what()).starts_with(name + ":")) continue;
      if (option->count() > 1) return name + " is given more than once";
      return name + " needs a value: " + option->get_type_name();
    }
  }
  const std::vector<std::string> words = command.remaining(true);
  if (words.empty()) return error.what();
  return (words.front().starts_with('-') ? "unknown option \""
                                         : "unexpected argument \"") +
         words.front() + '"';
}

int Complain(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const CLI::App& command = chosen.empty() ? app : *chosen.back();
  const std::string who =
      chosen.empty() ? app.get_name() : "urnic " + command.get_name();
  return Complain(who,
                  Describe(command, error) + "; for help: " + who + " --help");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("uRNIC: an RDMA NIC in user space", "urnic");
  app.set_version_flag("--version", "urnic " URNIC_FW_VERSION);
  app.require_subcommand(1);
  app.footer(
      "First steps: urnic doctor, then\n"
      "  urnic run --port loop --addr 10.9.0.1/24 -- ibv_devinfo\n"
      "For help on a subcommand: urnic help SUBCOMMAND");
  int exit_status = urnic::kExitOk;
  std::vector<std::string> program;
  urnic::AddRunCommand(app, &program, &exit_status);
  urnic::AddAddrCommand(app, &exit_status);
  urnic::AddRouteCommand(app, &exit_status);
  urnic::AddStateCommand(app, &exit_status);
  urnic::AddDemoCommand(app, &exit_status);
  urnic::AddDoctorCommand(app, &exit_status);
  std::vector<std::string> args(argv + 1, argv + argc);
  TranslateHelp(&args);
  const std::string mistake = SubcommandMistake(app, args);
  if (!mistake.empty()) return Complain("urnic", mistake);
  program = urnic::SplitProgram(app, &args);
  // CLI11 reads a vector from its end.
  std::reverse(args.begin(), args.end());
  try {
    app.parse(args);
  } catch (const CLI::ParseError& e) {
    // --help and --version are exceptions, too.
    return e.get_exit_code() == 0 ? app.exit(e) : Complain(app, e);
  }
  return exit_status;
}
