#pragma once

// How a subcommand declares itself: its name, its help, its options, and the
// function that carries it out. A file of a subcommand includes this, and not
// CLI11: parsing that library takes longer than compiling all else in the file.
// Only command_line.cc includes it.
//
//   auto arguments = std::make_shared<TopArguments>();
//   Command& command = urnic.AddSubcommand(
//       "top", "Watch the rates of ports", [arguments] {
//         return Top(*arguments);  // the exit status
//       });
//   command.AddOption("-d,--delay", &arguments->seconds,
//                     "Seconds between two updates (default: 1)",
//                     {.type = "SECONDS", .range = {0.05, 3600}});
//
// The user's mistakes are told on stderr, and Run() returns kExitUsage. A
// declaration that contradicts itself (a name twice, an unknown name in
// `excludes`) throws, which ends the program at every start.
//
// Thread: one at a time.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace urnic {

// Our own exit statuses. `urnic run` passes on the status of its program; 126
// and 127 mean the same as in a shell.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitCannotExecute = 126;
inline constexpr int kExitNotFound = 127;

// One use of an option: "--port" "loop".
struct OptionWord {
  std::string option;
  std::string value;
};

// Where the value of an option goes. It keeps what it has if the option is not
// given, and outlives the command line.
//   bool*: a flag, which has no value
//   int*, uint32_t*, uint64_t*, double*: a number, decimal or with 0x
//   std::optional<std::string>*: a text; an empty one is none
//   std::vector<std::string>*: the option may be repeated; of an argument, all
//     words that are left
//   std::vector<OptionWord>*: the same for options that share the list, where
//     they are in the order of the command line
using OptionTarget =
    std::variant<bool*, int*, uint32_t*, uint64_t*, double*, std::string*,
                 std::optional<std::string>*, std::vector<std::string>*,
                 std::vector<OptionWord>*>;

struct OptionRules {
  // From `least` to `most`, both included. Not for flags and lists.
  struct Range {
    double least = 1;
    double most = 0;
  };

  const char* type = nullptr;         // the value in the help: "FILE"
  Range range = {};                   // of a number, or of a text that is one
  const char* one_of = nullptr;       // "start,stop"
  const char* excludes = nullptr;     // earlier options: "--set,--ctf"
  const char* environment = nullptr;  // has the value if it is not given
  // Of a value; empty: it is good.
  std::string (*mistake)(const std::string& value) = nullptr;
  bool* given = nullptr;  // becomes true if the option is given, even empty
  bool required = false;
  bool several = false;  // of a list: each use takes all words up to an option
  int most_words = 0;    // of an argument that is a list; 0: without limit
  bool shows_default = false;  // the help has the value before the parse
};

class Command {
 public:
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // A subcommand, which lives as long as this command. `run` is called if it
  // was chosen without a subcommand of its own, and returns the exit status.
  // Options of a command may also follow the subcommand, except those of the
  // whole command line.
  Command& AddSubcommand(const std::string& name, const std::string& help,
                         std::function<int()> run);

  // `names`: "--delay", "-d,--delay", or "DEVICE" for an argument, which is
  // known by its place.
  void AddOption(const std::string& names, OptionTarget target,
                 const std::string& help, const OptionRules& rules = {});

  // A text below the options in the help. Its long lines are wrapped, so a
  // paragraph is one line.
  void SetFooter(const std::string& text);

  // What follows "Usage: " in the help of this command and of the subcommands
  // that are added later. Without it, the options and arguments are listed.
  void SetUsage(const std::string& text);

  // The command line ends with a program and its own options, even those with
  // the same names as ours (ib_write_bw has a --port): they begin at "--" or at
  // the first word that is neither an option nor its value. They go to
  // `*program`, which outlives the command line. Other words are not arguments.
  void TakeProgram(std::vector<std::string>* program);

 private:
  friend class CommandLine;
  struct Line;
  struct Parts;
  explicit Command(std::unique_ptr<Parts> parts);

  const std::unique_ptr<Parts> parts_;
};

// A program's command line.
class CommandLine : public Command {
 public:
  // Whose words the help and the mistakes have: ours, which name the probable
  // word for a misspelt one, or those of CLI11, with its exit statuses.
  enum class Words { kOurs, kOfCli11 };

  CommandLine(const std::string& name, const std::string& what,
              Words words = Words::kOurs);

  // What --version prints.
  void SetVersion(const std::string& text);

  // Parses the words after the program's name, and runs the subcommand that
  // they choose. "help X" is "X --help". Returns the exit status. With words of
  // ours, it also says that stdout could not be written.
  int Run(std::vector<std::string> words);

 private:
  const Words words_;
};

}  // namespace urnic
