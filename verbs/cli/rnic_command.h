#pragma once

// Shared by the subcommands that list and change something of RNICs in running
// programs: `urnic WHAT`, `urnic WHAT add DEVICE VALUE`, and del.

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"

namespace urnic {

// Texts live as long as the command line.
struct RnicCommand {
  const char* name;        // also the request, verbs/control/control_protocol.h
  const char* help;        // of the subcommand
  const char* one;         // "an address"
  const char* value;       // the arguments after DEVICE
  const char* value_help;  // an example
  bool value_is_words;     // all words up to the end
  // INVALID_ARGUMENT: the value is none, whatever programs run.
  absl::Status (*check)(const std::string& value);
  void (*print)(const std::string& line);  // one of an answer's
};

void AddRnicCommand(CLI::App& app, const RnicCommand& what, int* exit_status);

}  // namespace urnic
