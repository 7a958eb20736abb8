#pragma once

// The subcommands of `urnic`, one file each. A new one adds a function here and
// a line in main.cc.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace urnic {

// Our own exit statuses. `urnic run` passes on the status of its program; 126
// and 127 mean the same as in a shell.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitCannotExecute = 126;
inline constexpr int kExitNotFound = 127;

// Each function adds its subcommand to `app`. The subcommand's callback stores
// the exit status in `*exit_status`. All arguments must outlive the parse.
void AddAddrCommand(CLI::App& app, int* exit_status);
void AddCaptureCommand(CLI::App& app, int* exit_status);
void AddCleanCommand(CLI::App& app, int* exit_status);
void AddDemoCommand(CLI::App& app, int* exit_status);
void AddDoctorCommand(CLI::App& app, int* exit_status);
void AddDumpCommand(CLI::App& app, int* exit_status);
void AddExplainCommand(CLI::App& app, int* exit_status);
void AddExportCommand(CLI::App& app, int* exit_status);
void AddGuardCommand(CLI::App& app, int* exit_status);
void AddInputsCommand(CLI::App& app, int* exit_status);
void AddRouteCommand(CLI::App& app, int* exit_status);
void AddShowCommand(CLI::App& app, int* exit_status);
void AddStateCommand(CLI::App& app, int* exit_status);
void AddTopCommand(CLI::App& app, int* exit_status);
void AddTraceCommand(CLI::App& app, int* exit_status);
// `program`: the words after the options of `run`, see SplitProgram.
void AddRunCommand(CLI::App& app, const std::vector<std::string>* program,
                   int* exit_status);

// The same, with the words of urnic-perf.
void AddPerfCommand(CLI::App& app, const std::vector<std::string>* program,
                    int* exit_status);

// Cuts PROGRAM ARGS... off the command line of `urnic run` or `urnic perf`, at
// "--" or at the first word that is neither an option nor its value. All later
// options belong to the program, even those with the same names as ours
// (ib_write_bw has a --port). Other command lines are not changed.
std::vector<std::string> SplitProgram(const CLI::App& app,
                                      std::vector<std::string>* args);

}  // namespace urnic
