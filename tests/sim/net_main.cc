// net_sim [--seeds=A..B]: runs the simulator of host cores. For a core that was
// broken on purpose (mutations.bzl), `--expect-violation` inverts the exit
// status; a failed check of the core counts as well.

#include <cinttypes>
#include <cstdio>

#include "tests/sim/host_net.h"
#include "tests/sim/seeds.h"

namespace urnic::sim {
namespace {

bool RunSeed(uint64_t seed, NetStats& total) {
  try {
    const NetStats stats = NetRun(seed).Run();
    total.delivered += stats.delivered;
    total.lost += stats.lost;
    total.moves += stats.moves;
    total.lies += stats.lies;
    total.found += stats.found;
    total.answers += stats.answers;
    return true;
  } catch (const Violation& violation) {
    std::printf("net seed %" PRIu64 ": %s\n", seed, violation.what.c_str());
    return false;
  }
}

int Main(int argc, char** argv) {
  Seeds seeds{.last = 500};
  if (!ParseSeeds("net_sim", argc, argv, seeds)) return 2;
  if (seeds.expect_violation) PassOnAbort();
  NetStats total;
  int failures = 0;
  for (uint64_t seed = seeds.first; seed <= seeds.last && failures < 10;
       ++seed) {
    failures += RunSeed(seed, total) ? 0 : 1;
    if (seeds.expect_violation && failures != 0) return 0;
  }
  std::printf("%" PRIu64 " paths, %" PRIu64 " packets, %" PRIu64
              " lost frames, %" PRIu64 " moves, %" PRIu64 " lies, %" PRIu64
              " pings, %d failures\n",
              total.found, total.delivered, total.lost, total.moves, total.lies,
              total.answers, failures);
  // A simulator in which no host finds another would find nothing wrong.
  const bool worked = total.found != 0 && total.delivered > total.lost &&
                      total.moves != 0 && total.lies != 0 && total.answers != 0;
  return failures == 0 && worked && !seeds.expect_violation ? 0 : 1;
}

}  // namespace
}  // namespace urnic::sim

int main(int argc, char** argv) { return urnic::sim::Main(argc, argv); }
