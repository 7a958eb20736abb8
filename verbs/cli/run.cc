#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "verbs/cli/command.h"
#include "verbs/cli/config.h"
#include "verbs/cli/install_paths.h"

namespace urnic {
namespace {

struct RunArguments {
  ConfigFlags flags;
  std::vector<std::string> program;
};

int Complain(const char* command, const absl::Status& status) {
  std::fprintf(stderr, "urnic %s: %.*s\n", command,
               static_cast<int>(status.message().size()),
               status.message().data());
  return kExitUsage;
}

// Puts `value` before the variable's value: ours must come first, and the
// user's must stay.
void PrependEnv(const char* name, const std::string& value) {
  const char* old = std::getenv(name);
  const std::string joined =
      old != nullptr && *old != '\0' ? value + ":" + old : value;
  setenv(name, joined.c_str(), 1);
}

void SetEnvironment(const Config& config, const InstallPaths& paths) {
  PrependEnv("LD_PRELOAD", paths.preload);
  PrependEnv("IBV_DRIVERS", paths.ibv_drivers);
  // The older name of IBV_DRIVERS. If it is set, libibverbs reads nothing else.
  if (std::getenv("RDMAV_DRIVERS") != nullptr)
    PrependEnv("RDMAV_DRIVERS", paths.ibv_drivers);
  setenv("URNIC_PORTS", config.ports.c_str(), 1);
  unsetenv("SYSFS_PATH");  // would lead libibverbs past our devices
}

int Execute(std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  const int err = errno;
  const bool in_path = std::strchr(argv[0], '/') == nullptr;
  if (err == ENOENT && in_path)
    std::fprintf(stderr, "urnic run: %s: there is no such program in PATH\n",
                 argv[0]);
  else
    std::fprintf(stderr, "urnic run: %s cannot be executed: %s\n", argv[0],
                 std::strerror(err));
  return err == ENOENT || err == ENOTDIR ? kExitNotFound : kExitCannotExecute;
}

// Executes the words with the RNIC that the flags describe. Returns only if
// that fails.
absl::StatusOr<int> RunWith(const ConfigFlags& flags,
                            std::vector<std::string> words) {
  absl::StatusOr<Config> config = flags.Resolve();
  if (!config.ok()) return config.status();
  if (config->ports.empty())
    return absl::InvalidArgumentError(
        "no port; give --port (for a first try: --port loop --addr "
        "10.0.0.1/24), URNIC_PORTS or --config");
  absl::StatusOr<InstallPaths> paths = FindInstallPaths();
  if (!paths.ok()) return paths.status();
  SetEnvironment(*config, *paths);
  return Execute(words);
}

int Run(const RunArguments& arguments) {
  const auto& [flags, words] = arguments;
  if (words.empty())
    return Complain("run", absl::InvalidArgumentError(
                               "no program; usage: urnic run --port DEV "
                               "--addr IP/LEN -- PROGRAM ARGS..."));
  const absl::StatusOr<int> status = RunWith(flags, words);
  return status.ok() ? *status : Complain("run", status.status());
}

// The program is beside this one.
int Perf(const RunArguments& arguments) {
  const auto& [flags, words] = arguments;
  const absl::StatusOr<std::string> own = OwnPath();
  if (!own.ok()) return Complain("perf", own.status());
  std::vector<std::string> program = {*own + "-perf"};
  program.insert(program.end(), words.begin(), words.end());
  // It says what it can do, for which it needs no RNIC.
  if (words.empty() || words.back() == "--help" || words.back() == "-h") {
    if (words.empty()) program.push_back("--help");
    return Execute(program);
  }
  const absl::StatusOr<int> status = RunWith(flags, program);
  return status.ok() ? *status : Complain("perf", status.status());
}

}  // namespace

void AddRunCommand(Command& urnic) {
  auto arguments = std::make_shared<RunArguments>();
  Command& command =
      urnic.AddSubcommand("run", "Start a verbs program with an RNIC inside it",
                          [arguments] { return Run(*arguments); });
  command.SetUsage(
      "urnic run [--port DEV --addr IP/LEN [--addr ..] [--route R]..]...\n"
      "                 [--mtu N] [--pkey K]... [--fault SPEC] "
      "[--transport T]\n"
      "                 [--iwarp SPEC] [--mode embedded] [--config FILE] [--] "
      "PROGRAM\n"
      "                 ARGS...");
  command.SetFooter(
      "The exit status is the program's. It is 2 if this command line has a "
      "mistake, 126 if the program cannot be executed, and 127 if there is no "
      "such program.\n"
      "\n"
      "Each setting has three places; the first that has it wins:\n"
      "  flag                  environment                TOML key\n"
      "  --port DEV, --addr A  URNIC_PORTS=\"DEV|A;...\"    ports = "
      "[\"DEV|A\", ...]\n"
      "  --mtu N               URNIC_MTU=N                mtu = N\n"
      "  --pkey K              URNIC_PKEYS=\"K,...\"        pkeys = [K, ...]\n"
      "  --fault SPEC          URNIC_FAULT=SPEC           fault = \"SPEC\"\n"
      "  --transport T         URNIC_TRANSPORT=T          transport = \"T\"\n"
      "  --iwarp SPEC          URNIC_IWARP=SPEC           iwarp = \"SPEC\"\n"
      "  --mode embedded       URNIC_MODE=embedded        mode = \"embedded\"\n"
      "  --config FILE         URNIC_CONFIG=FILE\n"
      "A is IP/LEN or IP/LEN,iwarp. More addresses follow as DEV|A|A, routes "
      "as DEV|A|route=R, and other settings of a port as vlan=7, mac=port, "
      "mtu=N, transport=T, iwarp=SPEC or pkey=K.");
  arguments->flags.AddTo(command);
  command.TakeProgram(&arguments->program);
}

void AddPerfCommand(Command& urnic) {
  auto arguments = std::make_shared<RunArguments>();
  Command& command = urnic.AddSubcommand(
      "perf", "Measure RUD between two programs, or within one",
      [arguments] { return Perf(*arguments); });
  command.SetUsage(
      "urnic perf [--port DEV --addr IP/LEN ..]... rud [--test T] [--bytes N]\n"
      "                  [HOST]\n"
      "       urnic perf --port loop --addr 10.9.0.1/24 rud --loopback");
  command.SetFooter(
      "The options before \"rud\" are those of urnic run; several ports are "
      "used together. `urnic perf rud --help` shows those behind it. Without "
      "HOST it is the server, and ends with its client. HOST is the server's "
      "name for the kernel's TCP, by which both meet. The exit status is 1 if "
      "the test failed.");
  arguments->flags.AddTo(command);
  command.TakeProgram(&arguments->program);
}

}  // namespace urnic
