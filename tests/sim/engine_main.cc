// engine_sim [--seeds=A..B]: runs the simulator of real engines, up to the
// first failure. In an engine that was broken on purpose (mutants.bzl)
// `--expect-violation` turns the exit status around, and a check of the engine
// that fails counts, too.

#include <unistd.h>

#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "tests/sim/engine_run.h"

namespace urnic::sim {
namespace {

void OnAbort(int) {
  static constexpr char kText[] = "caught: a check of the engine failed\n";
  if (write(STDOUT_FILENO, kText, sizeof(kText) - 1) < 0) _exit(1);
  _exit(0);
}

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
  } catch (const Violation& violation) {
    std::printf("engine seed %" PRIu64 ": %s\n", seed, violation.what.c_str());
    return false;
  }
  delete run;
  return true;
}

int Main(int argc, char** argv) {
  uint64_t first = 1;
  uint64_t last = 300;
  bool expect_violation = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--expect-violation") == 0) {
      expect_violation = true;
    } else if (std::sscanf(argv[i], "--seeds=%" SCNu64 "..%" SCNu64, &first,
                           &last) != 2) {
      std::fprintf(stderr,
                   "usage: engine_sim [--seeds=A..B] [--expect-violation]\n");
      return 2;
    }
  }
  if (expect_violation) std::signal(SIGABRT, OnAbort);
  Buffers buffers;
  EngineStats total;
  bool good = true;
  for (uint64_t seed = first; seed <= last && good; ++seed) {
    good = RunSeed(buffers, seed, total);
  }
  std::printf("%" PRIu64 " connections, %" PRIu64 " messages, %" PRIu64
              " datagrams, %" PRIu64 " failed, %" PRIu64 " moves, %" PRIu64
              " lost frames, %" PRIu64 " times blocked, %" PRIu64 " events\n",
              total.lives, total.messages, total.datagrams, total.failures,
              total.moves, total.lost, total.blocked, total.events);
  std::fflush(stdout);
  // What is left of a run that has failed cannot be destroyed.
  _exit(good != expect_violation ? 0 : 1);
}

}  // namespace
}  // namespace urnic::sim

int main(int argc, char** argv) { return urnic::sim::Main(argc, argv); }
