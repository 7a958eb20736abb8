#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "verbs/cli/command.h"
#include "verbs/cli/open_metrics.h"
#include "verbs/cli/output_file.h"
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

int Export(const ExportArguments& arguments) {
  auto found = FindRnics("", arguments.process);
  // No program has an RNIC: that is a result, too.
  const bool none = !found.ok() && absl::IsNotFound(found.status()) &&
                    arguments.process.empty();
  if (!found.ok() && !none) {
    (void)Complain(kCommand, found.status());
    return kExitFailed;
  }
  bool complete = true;
  MetricSources sources;
  if (found.ok()) {
    const auto all = [&](const char* kind) {
      return ObjectsOfAll(*found, kind, kCommand, &complete);
    };
    sources.devices = all("dev");
    sources.links = all("link");
    sources.stats = all("stat");
    if (arguments.qps) sources.qps = all("qp");
  }
  const std::string text = OpenMetricsText(sources);
  if (arguments.output.empty()) {
    std::fputs(text.c_str(), stdout);
    return complete ? kExitOk : kExitFailed;
  }
  // Also without the counters of some: one program that a debugger holds must
  // not stop those of all others.
  ReplacedFile file(arguments.output, 0644);
  absl::Status status = file.Open();
  if (status.ok()) status = file.Write(text);
  if (!status.ok()) return Complain(kCommand, status);
  return complete ? kExitOk : kExitFailed;
}

}  // namespace

void AddExportCommand(Command& urnic) {
  auto arguments = std::make_shared<ExportArguments>();
  Command& command = urnic.AddSubcommand(
      kCommand, "Print the counters of all RNICs as OpenMetrics",
      [arguments] { return Export(*arguments); });
  command.SetFooter(
      "For Prometheus: let a timer write a file for the textfile collector of "
      "its node exporter, urnic export --output FILE.prom.");
  AddProcessOption(command, &arguments->process);
  command.AddOption("--qps", &arguments->qps,
                    "Also the counters of each queue pair");
  command.AddOption("--output", &arguments->output,
                    "Replace this file instead of printing", {.type = "FILE"});
}

}  // namespace urnic
