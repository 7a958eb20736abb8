// rc_with_mutations [--seeds=A..B] [--expect-violation]: runs the simulator of
// reliable connections, linked with cores and engines that can be broken on
// purpose (mutations.bzl). `--expect-violation` inverts the exit status; a
// failed check of the core counts as well.

#include <unistd.h>

#include <cinttypes>
#include <cstdio>

#include "tests/sim/seeds.h"
#include "tests/sim/simulation.h"

int main(int argc, char** argv) {
  urnic::sim::Seeds seeds{.last = 2000};
  if (!urnic::sim::ParseSeeds("rc_with_mutations", argc, argv, seeds)) return 2;
  if (seeds.expect_violation) urnic::sim::PassOnAbort();
  const urnic::sim::Buffers buffers;
  for (uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    // The rest of a failed run cannot be destroyed.
    auto* simulation = new urnic::sim::Simulation(buffers, seed);
    try {
      simulation->Run();
    } catch (const urnic::sim::Violation& violation) {
      std::printf("caught by seed %" PRIu64 ": %s\n", seed,
                  violation.what.c_str());
      std::fflush(stdout);
      _exit(seeds.expect_violation ? 0 : 1);
    }
    delete simulation;
  }
  std::printf("nothing caught, up to seed %" PRIu64 "\n", seeds.last);
  std::fflush(stdout);
  _exit(seeds.expect_violation ? 1 : 0);
}
