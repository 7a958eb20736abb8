#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "verbs/cli/command.h"
#include "verbs/cli/open_metrics.h"
#include "verbs/cli/rnic_command.h"
#include "verbs/cli/rnic_facts.h"
#include "verbs/cli/rnic_process.h"

namespace urnic {
namespace {

constexpr char kCommand[] = "export";

struct ExportArguments {
  std::string process;
  std::string output;
  bool qps = false;
};

// A reader sees the old file or the new one, never a part. 0 or an errno.
int Replace(const std::string& path, const std::string& text) {
  const std::string next = absl::StrCat(path, ".", getpid());
  const int fd =
      open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return errno;
  std::FILE* const file = fdopen(fd, "w");
  const bool written =
      std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  if (written && closed && rename(next.c_str(), path.c_str()) == 0) return 0;
  const int error = errno;
  unlink(next.c_str());
  return error;
}

int Export(const ExportArguments& arguments) {
  const auto found = FindRnics("", arguments.process);
  // No program has an RNIC: that is a result, too.
  const bool none = !found.ok() && absl::IsNotFound(found.status()) &&
                    arguments.process.empty();
  if (!found.ok() && !none) {
    std::fprintf(stderr, "urnic %s: %s\n", kCommand,
                 std::string(found.status().message()).c_str());
    return kExitFailed;
  }
  MetricSources sources;
  if (found.ok()) {
    const auto all = [&](const char* kind) {
      return ObjectsOfAll(*found, kind, kCommand);
    };
    sources.devices = all("dev");
    sources.links = all("link");
    sources.stats = all("stat");
    if (arguments.qps) sources.qps = all("qp");
  }
  const std::string text = OpenMetricsText(sources);
  if (arguments.output.empty()) {
    std::fputs(text.c_str(), stdout);
    return std::fflush(stdout) == 0 ? kExitOk : kExitFailed;
  }
  const int error = Replace(arguments.output, text);
  if (error == 0) return kExitOk;
  std::fprintf(stderr, "urnic %s: %s: %s\n", kCommand, arguments.output.c_str(),
               std::strerror(error));
  return kExitFailed;
}

}  // namespace

void AddExportCommand(CLI::App& app, int* exit_status) {
  CLI::App* command = app.add_subcommand(
      kCommand, "Print the counters of all RNICs as OpenMetrics");
  command->footer(
      "For Prometheus: let a timer write a file for the textfile collector of "
      "its node exporter, urnic export --output FILE.prom.");
  auto arguments = std::make_shared<ExportArguments>();
  AddProcessOption(*command, &arguments->process);
  command->add_flag("--qps", arguments->qps,
                    "Also the counters of each queue pair");
  command
      ->add_option("--output", arguments->output,
                   "Replace this file instead of printing")
      ->type_name("FILE");
  command->callback(
      [arguments, exit_status] { *exit_status = Export(*arguments); });
}

}  // namespace urnic
