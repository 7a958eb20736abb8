// iwarp_sim [--seeds=A..B]: runs the simulator of iWARP, up to the first
// failure. For a core that was broken on purpose (mutations.bzl),
// `--expect-violation` inverts the exit status; a failed check of the core
// counts as well.

#include <unistd.h>

#include <cinttypes>
#include <cstdio>

#include "tests/sim/iwarp_run.h"
#include "tests/sim/seeds.h"

namespace urnic::sim {
namespace {

bool RunSeed(uint64_t seed, bool logs, IwarpStats& total) {
  // The rest of a failed run cannot be destroyed.
  auto* run = new IwarpRun(seed, logs);
  try {
    const IwarpStats stats = run->Run();
    total.connections += stats.connections;
    total.requests += stats.requests;
    total.quiet += stats.quiet;
    total.resent += stats.resent;
    total.events += stats.events;
    total.replayed += stats.replayed;
  } catch (const Violation& violation) {
    std::printf("iwarp seed %" PRIu64 ": %s\n", seed, violation.what.c_str());
    return false;
  }
  delete run;
  return true;
}

int Main(int argc, char** argv) {
  Seeds seeds{.last = 1000};
  if (!ParseSeeds("iwarp_sim", argc, argv, seeds)) return 2;
  if (seeds.expect_violation) PassOnAbort();
  IwarpStats total;
  bool good = true;
  for (uint64_t seed = seeds.first; seed <= seeds.last && good; ++seed) {
    // The replay has the core that is not broken.
    good = RunSeed(seed, !seeds.expect_violation, total);
  }
  std::printf("%" PRIu64 " connections, %" PRIu64 " without any error, %" PRIu64
              " requests, %" PRIu64 " segments sent again, %" PRIu64
              " events, %" PRIu64 " calls replayed\n",
              total.connections, total.quiet, total.requests, total.resent,
              total.events, total.replayed);
  std::fflush(stdout);
  _exit(good != seeds.expect_violation ? 0 : 1);
}

}  // namespace
}  // namespace urnic::sim

int main(int argc, char** argv) { return urnic::sim::Main(argc, argv); }
