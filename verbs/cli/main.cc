#include "verbs/cli/command.h"
#include "verbs/identity/device_identity.h"

int main(int argc, char** argv) {
  urnic::CommandLine line("urnic", "uRNIC: an RDMA NIC in user space");
  line.SetVersion("urnic " URNIC_FW_VERSION);
  line.SetFooter(
      "First steps: urnic doctor, then\n"
      "  urnic run --port loop --addr 10.9.0.1/24 -- ibv_devinfo\n"
      "For help on a subcommand: urnic help SUBCOMMAND");
  urnic::AddRunCommand(line);
  urnic::AddAddrCommand(line);
  urnic::AddRouteCommand(line);
  urnic::AddShowCommand(line);
  urnic::AddTopCommand(line);
  urnic::AddExportCommand(line);
  urnic::AddTraceCommand(line);
  urnic::AddCaptureCommand(line);
  urnic::AddDumpCommand(line);
  urnic::AddInputsCommand(line);
  urnic::AddExplainCommand(line);
  urnic::AddStateCommand(line);
  urnic::AddCleanCommand(line);
  urnic::AddGuardCommand(line);
  urnic::AddDemoCommand(line);
  urnic::AddPerfCommand(line);
  urnic::AddDoctorCommand(line);
  return line.Run({argv + 1, argv + argc});
}
