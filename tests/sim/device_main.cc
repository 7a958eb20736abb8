// device_sim [--seeds=A..B]: runs the simulator of iWARP devices, up to the
// first failure. For an engine that was broken on purpose (mutations.bzl),
// `--expect-violation` inverts the exit status; a failed check of the engine
// counts as well.

#include <unistd.h>

#include <cinttypes>
#include <cstdio>

#include "tests/sim/device_run.h"
#include "tests/sim/seeds.h"

namespace urnic::sim {
namespace {

bool RunSeed(Buffers& buffers, uint64_t seed, DeviceStats& total) {
  auto* run = new DeviceRun(buffers, seed);
  try {
    const DeviceStats stats = run->Run();
    total.sessions.lives += stats.sessions.lives;
    total.sessions.connected += stats.sessions.connected;
    total.sessions.troubles += stats.sessions.troubles;
    total.sessions.messages += stats.sessions.messages;
    total.sessions.failures += stats.sessions.failures;
    total.sessions.replayed += stats.sessions.replayed;
    total.forged += stats.forged;
    total.lost += stats.lost;
    total.events += stats.events;
  } catch (const Violation& violation) {
    std::printf("device seed %" PRIu64
                ": %s\nto replay: bazel run //tests/sim:device_sim -- "
                "--seeds=%" PRIu64 "..%" PRIu64 "\n",
                seed, violation.what.c_str(), seed, seed);
    return false;
  }
  delete run;
  return true;
}

int Main(int argc, char** argv) {
  Seeds seeds{.last = 300};
  if (!ParseSeeds("device_sim", argc, argv, seeds)) return 2;
  if (seeds.expect_violation) PassOnAbort();
  Buffers buffers;
  DeviceStats total;
  bool good = true;
  for (uint64_t seed = seeds.first; seed <= seeds.last && good; ++seed) {
    good = RunSeed(buffers, seed, total);
  }
  std::printf("%" PRIu64 " lives, %" PRIu64 " ends connected, %" PRIu64
              " failed, %" PRIu64 " troubles, %" PRIu64 " messages, %" PRIu64
              " forged segments, %" PRIu64 " lost frames, %" PRIu64
              " events, %" PRIu64 " calls replayed\n",
              total.sessions.lives, total.sessions.connected,
              total.sessions.failures, total.sessions.troubles,
              total.sessions.messages, total.forged, total.lost, total.events,
              total.sessions.replayed);
  std::fflush(stdout);
  // The rest of a failed run cannot be destroyed.
  // In one run, all sessions may be in trouble.
  const bool any = total.sessions.connected != 0 || seeds.first == seeds.last;
  good = good && any;
  _exit(good != seeds.expect_violation ? 0 : 1);
}

}  // namespace
}  // namespace urnic::sim

int main(int argc, char** argv) { return urnic::sim::Main(argc, argv); }
