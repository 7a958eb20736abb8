#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "verbs/cli/command.h"
#include "verbs/cli/rnic_command.h"
#include "verbs/cli/rnic_facts.h"
#include "verbs/cli/rnic_process.h"
#include "verbs/cli/top_view.h"

namespace urnic {
namespace {

constexpr char kCommand[] = "top";
constexpr uint64_t kLooksMax = 1'000'000'000;

struct TopArguments {
  std::string process;
  double seconds = 1;
  uint64_t looks = 0;  // 0: until it is interrupted
  bool batch = false;
};

// Of the terminal; 0: it is none.
size_t TerminalLines() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

// Programs come and go, so all are looked for again.
TopLook Look(const TopArguments& arguments) {
  TopLook look;
  auto found = FindRnics("", arguments.process);
  if (found.ok()) {
    look.stats = ObjectsOfAll(*found, "stat", kCommand);
    look.qps = ObjectsOfAll(*found, "qp", kCommand);
  }
  look.at = std::chrono::steady_clock::now();
  return look;
}

int Top(const TopArguments& arguments) {
  const auto found = FindRnics("", arguments.process);
  if (!found.ok()) {
    std::fprintf(stderr, "urnic %s: %s\n", kCommand,
                 std::string(found.status().message()).c_str());
    return kExitFailed;
  }
  const bool clears = !arguments.batch && isatty(STDOUT_FILENO) == 1;
  TopLook before = Look(arguments);
  for (uint64_t i = 0; arguments.looks == 0 || i < arguments.looks; ++i) {
    std::this_thread::sleep_for(
        std::chrono::duration<double>(arguments.seconds));
    TopLook now = Look(arguments);
    const size_t lines = clears ? TerminalLines() : 0;
    const std::string text =
        TopText(before, now, lines > 1 ? lines - 1 : lines);
    std::printf("%s%s%s", clears ? "\x1b[H\x1b[2J" : "", text.c_str(),
                clears ? "" : "\n");
    if (std::fflush(stdout) != 0) return kExitFailed;  // main() says why
    before = std::move(now);
  }
  return kExitOk;
}

}  // namespace

void AddTopCommand(Command& urnic) {
  auto arguments = std::make_shared<TopArguments>();
  Command& command = urnic.AddSubcommand(
      kCommand, "Watch the rates of ports and queue pairs in running programs",
      [arguments] { return Top(*arguments); });
  AddProcessOption(command, &arguments->process);
  command.AddOption("-d,--delay", &arguments->seconds,
                    "Seconds between two updates (default: 1)",
                    {.type = "SECONDS", .range = {0.05, 3600}});
  command.AddOption("-n,--number", &arguments->looks,
                    "Stop after N tables (default: never)",
                    {.type = "N", .range = {1, kLooksMax}});
  command.AddOption("-b,--batch", &arguments->batch,
                    "Print one table after the other, whole, also to a "
                    "terminal");
}

}  // namespace urnic
