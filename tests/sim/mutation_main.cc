// Built together with a core that was broken on purpose (mutants.bzl): passes
// if the oracle, or a check of the core, finds the fault.

#include <unistd.h>

#include <cinttypes>
#include <cstdio>

#include "tests/sim/seeds.h"
#include "tests/sim/simulation.h"

namespace {

constexpr uint64_t kSeeds = 2000;

}  // namespace

int main() {
  urnic::sim::PassOnAbort();
  const urnic::sim::Buffers buffers;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    // The rest of a failed run cannot be destroyed.
    auto* simulation = new urnic::sim::Simulation(buffers, seed);
    try {
      simulation->Run();
    } catch (const urnic::sim::Violation& violation) {
      std::printf("caught by seed %" PRIu64 ": %s\n", seed,
                  violation.what.c_str());
      std::fflush(stdout);
      _exit(0);
    }
    delete simulation;
  }
  std::printf("NOT CAUGHT by %" PRIu64 " seeds\n", kSeeds);
  std::fflush(stdout);
  _exit(1);
}
