#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ras/recorder/recording.h"
#include "verbs/cli/command.h"
#include "verbs/cli/rnic_command.h"
#include "verbs/cli/rnic_process.h"

namespace urnic {
namespace {

struct DumpArguments {
  std::string device;
  std::string process;
  std::string output;     // empty: a name of our own
  std::string collector;  // HOST:PORT, instead of a file
};

int Complain(const std::string& what) {
  std::fprintf(stderr, "urnic dump: %s\n", what.c_str());
  return kExitFailed;
}

// 0 or an errno.
int WriteAll(int fd, const std::string& bytes) {
  for (size_t done = 0; done != bytes.size();) {
    const ssize_t written = write(fd, &bytes[done], bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    done += static_cast<size_t>(written);
  }
  return 0;
}

absl::Status WriteFile(const std::string& path, const std::string& bytes) {
  // A file of this user alone; an old one may be readable for others.
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  struct stat file = {};
  int error = fd < 0 || fstat(fd, &file) != 0 ||
                      (S_ISREG(file.st_mode) && fchmod(fd, 0600) != 0)
                  ? errno
                  : 0;
  if (error == 0) error = WriteAll(fd, bytes);
  if (fd >= 0 && close(fd) != 0 && error == 0) error = errno;
  if (error == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(path, ": ", std::strerror(error)));
}

// `collector`: HOST:PORT; an IPv6 address may be in brackets.
absl::Status SendTo(const std::string& collector, const std::string& bytes) {
  const size_t colon = collector.rfind(':');
  std::string host = collector.substr(0, colon);
  if (colon == std::string::npos || host.empty() ||
      colon + 1 == collector.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--to \"", collector, "\" is not HOST:PORT"));
  }
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int unknown =
      getaddrinfo(host.c_str(), &collector[colon + 1], &hints, &found);
  if (unknown != 0)
    return absl::InternalError(
        absl::StrCat(collector, ": ", gai_strerror(unknown)));
  int error = 0;
  int fd = -1;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, 0);
    error = fd < 0 || connect(fd, at->ai_addr, at->ai_addrlen) != 0 ? errno : 0;
    if (error == 0) break;
    if (fd >= 0) close(fd);
    fd = -1;
  }
  freeaddrinfo(found);
  if (error == 0) error = WriteAll(fd, bytes);
  // The collector hangs up when it has everything.
  char end;
  if (error == 0 && (shutdown(fd, SHUT_WR) != 0 || read(fd, &end, 1) < 0))
    error = errno;
  if (fd >= 0) close(fd);
  if (error == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(collector, ": ", std::strerror(error)));
}

int Dump(const DumpArguments& arguments) {
  const auto rnic = FindOneRnic(arguments.device, arguments.process);
  if (!rnic.ok()) return Complain(std::string(rnic.status().message()));
  const auto answer = AskRnic(*rnic, "dump");
  if (!answer.ok()) return Complain(std::string(answer.status().message()));
  const auto recording = ParseRecording(*answer);
  if (!recording.ok())
    return Complain(
        std::string(Unreadable(*rnic, recording.status()).message()));
  const std::string path =
      !arguments.output.empty()
          ? arguments.output
          : absl::StrCat(recording->port, "-", recording->pid, ".dump");
  const bool is_remote = !arguments.collector.empty();
  const absl::Status done = is_remote ? SendTo(arguments.collector, *answer)
                                      : WriteFile(path, *answer);
  if (!done.ok()) {
    (void)Complain(std::string(done.message()));
    return absl::IsInvalidArgument(done) ? kExitUsage : kExitFailed;
  }
  std::fprintf(stderr,
               "urnic dump: %s of process %u (%s): %zu bytes to %s; the RNIC "
               "stood still for %.1f ms\n",
               recording->port.c_str(), recording->pid,
               recording->program.c_str(), answer->size(),
               is_remote ? arguments.collector.c_str() : path.c_str(),
               recording->took_us / 1e3);
  return kExitOk;
}

}  // namespace

void AddDumpCommand(CLI::App& app, int* exit_status) {
  CLI::App* command = app.add_subcommand(
      "dump", "Write the state of an RNIC, all of one moment, into a file");
  command->footer(
      "The RNIC of the program stands still meanwhile. The keys of memory are "
      "masked. urnic show and urnic state read the file with --from.");
  auto arguments = std::make_shared<DumpArguments>();
  command
      ->add_option("DEVICE", arguments->device,
                   "Only this device, for example urnic0")
      ->configurable(false);
  AddProcessOption(*command, &arguments->process);
  command->add_option("--pid", arguments->process, "The same as --process")
      ->type_name("PID")
      ->configurable(false);
  auto* const output =
      command
          ->add_option("--output", arguments->output,
                       "The file; DEVICE-PID.dump if it is not given")
          ->type_name("FILE")
          ->configurable(false);
  command
      ->add_option("--to", arguments->collector,
                   "Send it to this TCP port instead")
      ->type_name("HOST:PORT")
      ->excludes(output)
      ->configurable(false);
  command->callback(
      [arguments, exit_status] { *exit_status = Dump(*arguments); });
}

}  // namespace urnic
