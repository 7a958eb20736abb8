#include <sys/resource.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "verbs/cli/checks.h"
#include "verbs/cli/command.h"
#include "verbs/cli/config.h"

namespace urnic {
namespace {

std::vector<Check> CheckMachine() {
  rlimit address_space{};
  getrlimit(RLIMIT_AS, &address_space);
  return {CheckInstall(),
          CheckVerbsLibrary(),
          CheckVerbsPrograms(),
          CheckProc(),
          CheckHugePages(),
          CheckMemlock(),
          CheckAddressSpace(address_space.rlim_cur),
          CheckCpus(),
          CheckTun(),
          CheckLeftOvers(),
          CheckClaims(),
          CheckKernelDevices()};
}

std::vector<Check> CheckPorts(const ConfigFlags& flags) {
  const absl::StatusOr<Config> config = flags.Resolve();
  if (!config.ok())
    return {
        {Finding::kFail, "configuration",
         std::string(config.status().message()),
         "correct it where it is set: an option of this command, a variable "
         "URNIC_..., or the file of --config"}};
  static std::array<urnic_device_identity, URNIC_MAX_DEVICES> devices;
  char error[512];
  const int count =
      urnic_device_identity_parse(config->ports.c_str(), urnic_host_identity(),
                                  devices.data(), error, sizeof(error));
  std::vector<Check> checks;
  bool any_interface = false;
  for (int i = 0; i < count; ++i) {
    const urnic_device_identity& d = devices[i];
    any_interface |= d.ifname[0] != '\0';
    checks.push_back({Finding::kOk, d.name, d.dev, ""});
    // The rest belongs to the port, which is checked with its first device.
    if (std::strcmp(d.name, d.port_name) != 0) continue;
    for (Check& check : CheckTransports(d)) checks.push_back(std::move(check));
    for (Check& check : CheckInterface(d)) checks.push_back(std::move(check));
    for (Check& check : CheckPortIsFree(d)) checks.push_back(std::move(check));
    for (Check& check : CheckAddresses(d)) checks.push_back(std::move(check));
    for (Check& check : CheckRouters(d)) checks.push_back(std::move(check));
    for (Check& check : CheckSocket(d)) checks.push_back(std::move(check));
  }
  checks.push_back(CheckRawSockets(any_interface));
  return checks;
}

// Prints one check and returns true if it is a failure.
bool Print(const Check& check) {
  static constexpr const char* kNames[] = {"OK", "WARN", "FAIL"};
  std::printf("%-4s  %-20s %s\n", kNames[static_cast<int>(check.finding)],
              check.what.c_str(), check.found.c_str());
  if (!check.remedy.empty())
    std::printf("      %-20s -> %s\n", "", check.remedy.c_str());
  return check.finding == Finding::kFail;
}

int Doctor(const ConfigFlags& flags) {
  bool failed = false;
  for (const Check& check : CheckMachine()) failed |= Print(check);
  for (const Check& check : CheckPorts(flags)) failed |= Print(check);
  return failed ? kExitFailed : kExitOk;
}

}  // namespace

void AddDoctorCommand(Command& urnic) {
  auto flags = std::make_shared<ConfigFlags>();
  Command& command = urnic.AddSubcommand(
      "doctor", "Check what this machine lacks, and say how to fix it",
      [flags] { return Doctor(*flags); });
  command.SetFooter(
      "Give it the same options as urnic run. The exit status is 0 unless a "
      "line says FAIL. When a verb of a program fails, URNIC_DEBUG=- urnic run "
      "... writes the reason for its errno to stderr.");
  flags->AddTo(command);
}

}  // namespace urnic
