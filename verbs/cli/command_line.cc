#include "verbs/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "verbs/cli/did_you_mean.h"
#include "verbs/cli/help_text.h"

namespace urnic {
namespace {

using Strings = std::vector<std::string>;
using OptionWords = std::vector<OptionWord>;

// Inherited by the subcommands that are added later.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::string usage = "") : usage_(std::move(usage)) {}

  std::string make_usage(const CLI::App* app, std::string name) const override {
    if (usage_.empty()) return CLI::Formatter::make_usage(app, name);
    return absl::StrCat("Usage: ", usage_, "\n");
  }
  // The usage line shows which arguments are required, and the explanations
  // name the variables of the environment.
  std::string make_option(const CLI::Option* option,
                          bool is_positional) const override {
    std::string name = make_option_name(option, is_positional);
    const bool takes_value = option->get_type_size() != 0;
    if (!is_positional && takes_value)
      absl::StrAppend(&name, " ", option->get_type_name());
    return HelpEntry(name, option->get_description());
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return HelpEntry(command->get_name(), command->get_description());
  }
  std::string make_footer(const CLI::App* app) const override {
    const std::string& footer = app->get_footer();
    return footer.empty() ? "" : WrapLines(footer, 0) + "\n";
  }

 private:
  const std::string usage_;
};

Strings SubcommandsOf(const CLI::App& command) {
  Strings names;
  for (const CLI::App* subcommand : command.get_subcommands(nullptr))
    names.push_back(subcommand->get_name());
  return names;
}

// CLI11 would only say that a subcommand is required. Empty: no mistake.
std::string SubcommandMistake(const CLI::App& app, const Strings& args) {
  if (!args.empty() && args.front().starts_with('-')) return "";
  const Strings names = SubcommandsOf(app);
  std::string what = "no subcommand";
  if (!args.empty()) {
    if (std::ranges::count(names, args.front()) != 0) return "";
    what = "unknown subcommand \"" + args.front() + '"';
    const std::string advice = DidYouMean(args.front(), names);
    if (!advice.empty()) return what + advice;
  }
  return absl::StrCat(what, "; the subcommands are ",
                      absl::StrJoin(names, ", "),
                      "; for help: ", app.get_name(), " help");
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

// "urnic show", or "urnic" if no subcommand was chosen.
std::string NameOf(const CLI::App& app) {
  const CLI::App* const command = ChosenCommands(app).back();
  if (command == &app) return app.get_name();
  return absl::StrCat(app.get_name(), " ", command->get_name());
}

Strings OptionsOf(const std::vector<const CLI::App*>& commands) {
  Strings names;
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
                           const Strings& known) {
    const std::string advice =
        DidYouMean(word.substr(0, word.find('=')), known);
    return absl::StrCat(what, word, "\"", advice.empty() ? for_help : advice);
  };
  // First, because the word after an unknown option may be its value.
  const Strings words = commands.back()->remaining(true);
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
  return kExitUsage;
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
  return exit_status == kExitOk ? kExitFailed : exit_status;
}

// "help [SUBCOMMAND]" is "[SUBCOMMAND] --help".
void TranslateHelp(Strings* args) {
  if (args->empty() || args->front() != "help") return;
  args->erase(args->begin());
  args->insert(args->begin() + (args->empty() ? 0 : 1), "--help");
}

// Cuts the program off the words, of which the first is the subcommand: at
// "--", or at the first that is neither an option nor its value.
Strings SplitProgram(const CLI::App& command, Strings* args) {
  size_t end = 1;
  for (; end < args->size() && args->at(end).starts_with('-'); ++end) {
    const std::string& word = args->at(end);
    if (word == "--") break;
    const CLI::Option* option = command.get_option_no_throw(word);
    if (option != nullptr && option->get_items_expected_max() > 0) ++end;
  }
  end = std::min(end, args->size());
  Strings program(args->begin() + end, args->end());
  args->resize(end);
  if (!program.empty() && program.front() == "--")
    program.erase(program.begin());
  return program;
}

CLI::Option* Add(CLI::App& app, const std::string& names, bool* flag,
                 const std::string& help) {
  return app.add_flag(names, *flag, help);
}

CLI::Option* Add(CLI::App& app, const std::string& names, OptionWords*,
                 const std::string& help) {
  // They are taken when the whole order is known.
  const auto take_later = [](const CLI::results_t&) { return true; };
  return app.add_option(names, take_later, help)
      ->type_name("TEXT")
      ->expected(CLI::detail::expected_max_vector_size);
}

template <typename T>
CLI::Option* Add(CLI::App& app, const std::string& names, T* value,
                 const std::string& help) {
  return app.add_option(names, *value, help);
}

// The range as numbers of the type that the value has, which the help and the
// mistakes name.
template <typename T>
CLI::Validator RangeCheck(const OptionRules::Range& range) {
  constexpr bool kIsNumber =
      std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;
  using Number = std::conditional_t<kIsNumber, T, uint32_t>;
  return CLI::Range(static_cast<Number>(range.least),
                    static_cast<Number>(range.most));
}

// The rules that do not depend on the type of the value.
void Obey(const OptionRules& rules, CLI::App& app, CLI::Option& option) {
  if (rules.type != nullptr) option.type_name(rules.type);
  if (rules.one_of != nullptr)
    option.check(CLI::IsMember(Strings(absl::StrSplit(rules.one_of, ','))));
  if (rules.mistake != nullptr) option.check(rules.mistake);
  if (rules.environment != nullptr) option.envname(rules.environment);
  if (rules.excludes != nullptr) {
    for (const std::string& name : Strings(absl::StrSplit(rules.excludes, ',')))
      option.excludes(app.get_option(name));
  }
  if (rules.required) option.required();
  if (rules.most_words != 0) option.expected(1, rules.most_words);
  if (rules.shows_default) option.capture_default_str();
  const bool is_list =
      option.get_expected_max() == CLI::detail::expected_max_vector_size;
  if (is_list && !option.get_positional())
    option.allow_extra_args(rules.several);
}

}  // namespace

// What the commands of one command line share.
struct Command::Line {
  Line(const std::string& name, const std::string& what) : app(what, name) {}

  CLI::App app;
  int exit_status = kExitOk;
};

struct Command::Parts {
  struct Given {
    const CLI::Option* option;
    bool* given;
  };
  struct Listed {
    const CLI::Option* option;
    OptionWords* list;
  };

  // Of the whole command line.
  explicit Parts(std::shared_ptr<Line> of)
      : line(std::move(of)), app(line->app) {}
  // Of a subcommand.
  Parts(std::shared_ptr<Line> of, CLI::App& subcommand)
      : line(std::move(of)), app(subcommand) {}

  // Sets what CLI11 does not.
  void Complete() const {
    for (const Given& each : given) *each.given = each.option->count() != 0;
    for (const Listed& each : listed) each.list->clear();
    std::map<const CLI::Option*, size_t> uses;
    for (const CLI::Option* option : app.parse_order()) {
      for (const Listed& each : listed) {
        if (each.option != option) continue;
        each.list->push_back(
            {option->get_name(), option->results().at(uses[option]++)});
      }
    }
  }

  const std::shared_ptr<Line> line;
  CLI::App& app;
  std::vector<Given> given;
  std::vector<Listed> listed;
  Strings* program = nullptr;
  std::vector<std::unique_ptr<Command>> subcommands;
};

Command::Command(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Command::~Command() = default;

Command& Command::AddSubcommand(const std::string& name,
                                const std::string& help,
                                std::function<int()> run) {
  CLI::App& parent = parts_->app;
  CLI::App& app = *parent.add_subcommand(name, help);
  if (&parent != &parts_->line->app) {
    app.fallthrough();
    parent.require_subcommand(0, 1);
  }
  auto own = std::make_unique<Parts>(parts_->line, app);
  const Parts& parts = *own;
  app.callback([&parts, run = std::move(run)] {
    if (!parts.app.get_subcommands().empty()) return;
    parts.Complete();
    parts.line->exit_status = run();
  });
  return *parts_->subcommands.emplace_back(new Command(std::move(own)));
}

void Command::AddOption(const std::string& names, OptionTarget target,
                        const std::string& help, const OptionRules& rules) {
  CLI::App& app = parts_->app;
  CLI::Option* option = nullptr;
  std::visit(
      [&]<typename T>(T* value) {
        option = Add(app, names, value, help);
        if (rules.range.least <= rules.range.most)
          option->check(RangeCheck<T>(rules.range));
      },
      target);
  Obey(rules, app, *option);
  if (rules.given != nullptr) parts_->given.push_back({option, rules.given});
  if (auto* const list = std::get_if<OptionWords*>(&target))
    parts_->listed.push_back({option, *list});
}

void Command::SetFooter(const std::string& text) { parts_->app.footer(text); }

void Command::SetUsage(const std::string& text) {
  parts_->app.formatter(std::make_shared<HelpFormatter>(text));
}

void Command::TakeProgram(std::vector<std::string>* program) {
  parts_->program = program;
}

CommandLine::CommandLine(const std::string& name, const std::string& what,
                         Words words)
    : Command(std::make_unique<Parts>(std::make_shared<Line>(name, what))),
      words_(words) {
  parts_->app.require_subcommand(1);
  if (words == Words::kOurs)
    parts_->app.formatter(std::make_shared<HelpFormatter>());
}

void CommandLine::SetVersion(const std::string& text) {
  parts_->app.set_version_flag("--version", text);
}

int CommandLine::Run(std::vector<std::string> words) {
  CLI::App& app = parts_->app;
  const bool is_ours = words_ == Words::kOurs;
  if (is_ours) {
    TranslateHelp(&words);
    const std::string mistake = SubcommandMistake(app, words);
    if (!mistake.empty()) return Complain(app.get_name(), mistake);
  }
  for (const auto& subcommand : parts_->subcommands) {
    const Parts& parts = *subcommand->parts_;
    if (parts.program != nullptr && !words.empty() &&
        words.front() == parts.app.get_name())
      *parts.program = SplitProgram(parts.app, &words);
  }
  // CLI11 reads a vector from its end.
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
  } catch (const CLI::ParseError& e) {
    // --help and --version are exceptions, too.
    if (!is_ours) return app.exit(e);
    return e.get_exit_code() == 0 ? Finish(app, app.exit(e)) : Complain(app, e);
  }
  const int exit_status = parts_->line->exit_status;
  return is_ours ? Finish(app, exit_status) : exit_status;
}

}  // namespace urnic
