#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "verbs/cli/command.h"
#include "verbs/cli/did_you_mean.h"
#include "verbs/cli/help_formatter.h"
#include "verbs/identity/device_identity.h"

namespace {

// "help [SUBCOMMAND]" is "[SUBCOMMAND] --help".
void TranslateHelp(std::vector<std::string>* args) {
  if (args->empty() || args->front() != "help") return;
  args->erase(args->begin());
  args->insert(args->begin() + (args->empty() ? 0 : 1), "--help");
}

std::vector<std::string> SubcommandsOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* subcommand : command.get_subcommands(nullptr))
    names.push_back(subcommand->get_name());
  return names;
}

// CLI11 would only say that a subcommand is required. Empty: no mistake.
std::string SubcommandMistake(const CLI::App& app,
                              const std::vector<std::string>& args) {
  if (!args.empty() && args.front().starts_with('-')) return "";
  const std::vector<std::string> names = SubcommandsOf(app);
  std::string what = "no subcommand";
  if (!args.empty()) {
    if (std::ranges::count(names, args.front()) != 0) return "";
    what = "unknown subcommand \"" + args.front() + '"';
    const std::string advice = urnic::DidYouMean(args.front(), names);
    if (!advice.empty()) return what + advice;
  }
  return absl::StrCat(what, "; the subcommands are ",
                      absl::StrJoin(names, ", "), "; for help: urnic help");
}

// The subcommand that the command line chose, innermost first: "add", "addr".
// The command itself only if it chose none.
std::vector<const CLI::App*> ChosenCommands(const CLI::App& app) {
  std::vector<const CLI::App*> chosen = {&app};
  while (!chosen.front()->get_subcommands().empty())
    chosen.insert(chosen.begin(), chosen.front()->get_subcommands().back());
  if (chosen.size() > 1) chosen.pop_back();
  return chosen;
}

std::vector<std::string> OptionsOf(
    const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands)
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames())
        names.push_back("--" + name);
  return names;
}

// More or fewer values than the option takes.
std::string CountMistake(const CLI::Option& option) {
  const std::string name = option.get_name();
  if (option.count() <= 1)
    return name + " needs a value: " + option.get_type_name();
  if (option.get_positional())
    return "unexpected argument \"" + option.results().back() + '"';
  return name + " is given more than once";
}

// CLI11's error in words that fit into a sentence, and what to do: take the
// probable word, or ask for help.
std::string Describe(const std::string& who,
                     const std::vector<const CLI::App*>& commands,
                     const CLI::ParseError& error) {
  const std::string for_help = "; for help: " + who + " --help";
  const auto unknown = [&](const char* what, const std::string& word,
                           const std::vector<std::string>& known) {
    const std::string advice =
        urnic::DidYouMean(word.substr(0, word.find('=')), known);
    return absl::StrCat(what, word, "\"", advice.empty() ? for_help : advice);
  };
  // First, because the word after an unknown option may be its value.
  const std::vector<std::string> words = commands.back()->remaining(true);
  for (const std::string& word : words)
    if (word.starts_with('-'))
      return unknown("unknown option \"", word, OptionsOf(commands));
  if (error.get_exit_code() ==
      static_cast<int>(CLI::ExitCodes::ArgumentMismatch)) {
    for (const CLI::App* command : commands) {
      for (const CLI::Option* option : command->get_options()) {
        if (std::string(error.what()).starts_with(option->get_name() + ":"))
          return CountMistake(*option) + for_help;
      }
    }
  }
  if (words.empty()) return error.what() + for_help;
  return unknown("unexpected argument \"", words.front(),
                 SubcommandsOf(*commands.front()));
}

int Complain(const std::string& who, const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", who.c_str(), what.c_str());
  return urnic::kExitUsage;
}

// "urnic show", or "urnic" if no subcommand was chosen.
std::string NameOf(const CLI::App& app) {
  const CLI::App* const command = ChosenCommands(app).back();
  return command == &app ? app.get_name() : "urnic " + command->get_name();
}

int Complain(const CLI::App& app, const CLI::ParseError& error) {
  const std::string who = NameOf(app);
  return Complain(who, Describe(who, ChosenCommands(app), error));
}

// The exit status. A command that prints is done only when its output is
// written, and stdio tells of a full disk at the end.
int Finish(const CLI::App& app, int exit_status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_status;
  // Commands print at their end, so the last error is that of writing.
  const std::string why = std::strerror(errno);
  std::fprintf(stderr, "%s: cannot write: %s\n", NameOf(app).c_str(),
               why.c_str());
  return exit_status == urnic::kExitOk ? urnic::kExitFailed : exit_status;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("uRNIC: an RDMA NIC in user space", "urnic");
  app.set_version_flag("--version", "urnic " URNIC_FW_VERSION);
  app.formatter(std::make_shared<urnic::HelpFormatter>());
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
  urnic::AddShowCommand(app, &exit_status);
  urnic::AddTopCommand(app, &exit_status);
  urnic::AddExportCommand(app, &exit_status);
  urnic::AddTraceCommand(app, &exit_status);
  urnic::AddCaptureCommand(app, &exit_status);
  urnic::AddDumpCommand(app, &exit_status);
  urnic::AddInputsCommand(app, &exit_status);
  urnic::AddExplainCommand(app, &exit_status);
  urnic::AddStateCommand(app, &exit_status);
  urnic::AddCleanCommand(app, &exit_status);
  urnic::AddGuardCommand(app, &exit_status);
  urnic::AddDemoCommand(app, &exit_status);
  urnic::AddPerfCommand(app, &program, &exit_status);
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
    return e.get_exit_code() == 0 ? Finish(app, app.exit(e)) : Complain(app, e);
  }
  return Finish(app, exit_status);
}
