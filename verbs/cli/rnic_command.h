#pragma once

// Shared by the subcommands that list and change a property of RNICs in running
// programs: `urnic WHAT`, `urnic WHAT add DEVICE VALUE`, and del; and by those
// that only ask.

#include <string>

#include "absl/status/status.h"
#include "verbs/cli/command_line.h"

namespace urnic {

// The texts must outlive the parse.
struct RnicCommand {
  const char* name;        // also the request, verbs/control/control_protocol.h
  const char* help;        // of the subcommand
  const char* one;         // "an address"
  const char* value;       // the arguments after DEVICE
  const char* add_option;  // what may follow it in `add`: "[,..]"
  const char* value_help;  // an example
  bool value_is_words;     // all words up to the end
  // INVALID_ARGUMENT: the value is invalid for every program.
  absl::Status (*check)(const std::string& value);
  void (*print)(const std::string& line);  // a line of an answer
};

// Says on stderr, after "urnic COMMAND: ", what went wrong. Returns the exit
// status: kExitUsage for INVALID_ARGUMENT.
int Complain(const char* command, const absl::Status& status);

// The option --process of every subcommand that asks running programs.
void AddProcessOption(Command& command, std::string* process);

void AddRnicCommand(Command& urnic, const RnicCommand& what);

}  // namespace urnic
