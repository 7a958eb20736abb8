#pragma once

// The subcommands of `urnic`, one file each. A new one adds a function here and
// a line in main.cc.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace urnic {

// Exit statuses of our own. What a program run by `urnic run` returns is passed
// on; 126 and 127 mean what they mean in a shell.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitCannotExecute = 126;
inline constexpr int kExitNotFound = 127;

// Each adds its subcommand to `app`, whose callback stores the exit status in
// `*exit_status`. All arguments must outlive the parse.
void AddAddrCommand(CLI::App& app, int* exit_status);
void AddDemoCommand(CLI::App& app, int* exit_status);
void AddDoctorCommand(CLI::App& app, int* exit_status);
void AddRouteCommand(CLI::App& app, int* exit_status);
void AddStateCommand(CLI::App& app, int* exit_status);
// `program`: what follows the options of `run`, see SplitProgram.
void AddRunCommand(CLI::App& app, const std::vector<std::string>* program,
                   int* exit_status);

// Cuts PROGRAM ARGS... off the command line of `urnic run`, at "--" or at the
// first word that is neither an option nor its value: from there on, options
// are the program's, even those that bear the names of ours (ib_write_bw has a
// --port). Other command lines stay whole.
std::vector<std::string> SplitProgram(const CLI::App& app,
                                      std::vector<std::string>* args);

}  // namespace urnic
