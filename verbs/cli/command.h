#pragma once

// The subcommands of `urnic`, one file each. A new one adds a function here and
// a line in main.cc.

#include "verbs/cli/command_line.h"

namespace urnic {

// Each function adds its subcommand to the command line.
void AddAddrCommand(Command& urnic);
void AddCaptureCommand(Command& urnic);
void AddCleanCommand(Command& urnic);
void AddDemoCommand(Command& urnic);
void AddDoctorCommand(Command& urnic);
void AddDumpCommand(Command& urnic);
void AddExplainCommand(Command& urnic);
void AddExportCommand(Command& urnic);
void AddGuardCommand(Command& urnic);
void AddInputsCommand(Command& urnic);
void AddPerfCommand(Command& urnic);
void AddRouteCommand(Command& urnic);
void AddRunCommand(Command& urnic);
void AddShowCommand(Command& urnic);
void AddStateCommand(Command& urnic);
void AddTopCommand(Command& urnic);
void AddTraceCommand(Command& urnic);

}  // namespace urnic
