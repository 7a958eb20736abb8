// net_sim [--seeds=A..B]: runs the simulator of host cores. In a core that was
// broken on purpose (mutants.bzl) `--expect-violation` turns the exit status
// around, and a check of the core that fails counts, too.

#include <unistd.h>

#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/host_net.h"

namespace urnic::sim {
namespace {

void OnAbort(int) {
  static constexpr char kText[] = "caught: a check of the core failed\n";
  if (write(STDOUT_FILENO, kText, sizeof(kText) - 1) < 0) _exit(1);
  _exit(0);
}

bool RunSeed(uint64_t seed, NetStats& total) {
  try {
    const NetStats stats = NetRun(seed).Run();
    total.delivered += stats.delivered;
    total.lost += stats.lost;
    total.moves += stats.moves;
    total.lies += stats.lies;
    total.found += stats.found;
    return true;
  } catch (const Violation& violation) {
    std::printf("net seed %" PRIu64 ": %s\n", seed, violation.what.c_str());
    return false;
  }
}

int Main(int argc, char** argv) {
  uint64_t first = 1;
  uint64_t last = 500;
  bool expect_violation = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--expect-violation") == 0) {
      expect_violation = true;
    } else if (std::sscanf(argv[i], "--seeds=%" SCNu64 "..%" SCNu64, &first,
                           &last) != 2) {
      std::fprintf(stderr,
                   "usage: net_sim [--seeds=A..B] [--expect-violation]\n");
      return 2;
    }
  }
  if (expect_violation) std::signal(SIGABRT, OnAbort);
  NetStats total;
  int failures = 0;
  for (uint64_t seed = first; seed <= last && failures < 10; ++seed) {
    failures += RunSeed(seed, total) ? 0 : 1;
    if (expect_violation && failures != 0) return 0;
  }
  std::printf("%" PRIu64 " paths, %" PRIu64 " packets, %" PRIu64
              " lost frames, %" PRIu64 " moves, %" PRIu64
              " lies, %d failures\n",
              total.found, total.delivered, total.lost, total.moves, total.lies,
              failures);
  // A simulator in which nobody finds anybody would find nothing wrong.
  const bool worked = total.found != 0 && total.delivered > total.lost &&
                      total.moves != 0 && total.lies != 0;
  return failures == 0 && worked && !expect_violation ? 0 : 1;
}

}  // namespace
}  // namespace urnic::sim

int main(int argc, char** argv) { return urnic::sim::Main(argc, argv); }
