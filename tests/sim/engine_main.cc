// engine_sim [--seeds=A..B]: runs the simulator of real engines, up to the
// first failure. For an engine that was broken on purpose (mutations.bzl),
// `--expect-violation` inverts the exit status; a failed check of the engine
// counts as well.

#include <unistd.h>

#include <cinttypes>
#include <cstdio>

#include "tests/sim/engine_run.h"
#include "tests/sim/seeds.h"

namespace urnic::sim {
namespace {

bool RunSeed(Buffers& buffers, uint64_t seed, EngineStats& total) {
  auto* run = new EngineRun(buffers, seed);
  try {
    const EngineStats stats = run->Run();
    total.lives += stats.lives;
    total.messages += stats.messages;
    total.failures += stats.failures;
    total.datagrams += stats.datagrams;
    total.moves += stats.moves;
    total.lost += stats.lost;
    total.blocked += stats.blocked;
    total.events += stats.events;
    total.pings += stats.pings;
  } catch (const Violation& violation) {
    std::printf("engine seed %" PRIu64 ": %s\n", seed, violation.what.c_str());
    return false;
  }
  delete run;
  return true;
}

int Main(int argc, char** argv) {
  Seeds seeds{.last = 300};
  if (!ParseSeeds("engine_sim", argc, argv, seeds)) return 2;
  if (seeds.expect_violation) PassOnAbort();
  Buffers buffers;
  EngineStats total;
  bool good = true;
  for (uint64_t seed = seeds.first; seed <= seeds.last && good; ++seed) {
    good = RunSeed(buffers, seed, total);
  }
  std::printf("%" PRIu64 " connections, %" PRIu64 " messages, %" PRIu64
              " datagrams, %" PRIu64 " failed, %" PRIu64 " moves, %" PRIu64
              " lost frames, %" PRIu64 " times blocked, %" PRIu64
              " pings, %" PRIu64 " events\n",
              total.lives, total.messages, total.datagrams, total.failures,
              total.moves, total.lost, total.blocked, total.pings,
              total.events);
  std::fflush(stdout);
  // The rest of a failed run cannot be destroyed.
  good = good && total.pings != 0;
  _exit(good != seeds.expect_violation ? 0 : 1);
}

}  // namespace
}  // namespace urnic::sim

int main(int argc, char** argv) { return urnic::sim::Main(argc, argv); }
