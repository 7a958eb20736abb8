// sim [--seed N | --seeds A..B | --seconds N] [--verbose]: runs the simulator.
// A failing seed prints the one line that replays it, and is the last.

#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/sim/simulation.h"

namespace urnic::sim {
namespace {

struct Arguments {
  uint64_t first = 1;
  uint64_t last = 200;
  double seconds = 0;
  bool verbose = false;
};

bool Parse(int argc, char** argv, Arguments& out) {
  for (int i = 1; i < argc; ++i) {
    std::string key = argv[i];
    std::string value;
    const size_t equals = key.find('=');
    if (equals != key.npos) {
      value = key.substr(equals + 1);
      key.resize(equals);
    } else if (key != "--verbose" && i + 1 < argc) {
      value = argv[++i];
    }
    const size_t dots = value.find("..");
    if (key == "--verbose") {
      out.verbose = true;
    } else if (key == "--seed" && !value.empty()) {
      out.first = out.last = std::strtoull(value.c_str(), nullptr, 0);
      out.verbose = true;
    } else if (key == "--seeds" && dots != value.npos) {
      out.first = std::strtoull(value.c_str(), nullptr, 0);
      out.last = std::strtoull(value.c_str() + dots + 2, nullptr, 0);
    } else if (key == "--seconds" && !value.empty()) {
      out.seconds = std::strtod(value.c_str(), nullptr);
      out.last = UINT64_MAX;
    } else {
      return false;
    }
  }
  return true;
}

uint64_t g_running_seed = 0;

// A check of the core itself failed.
void OnAbort(int) {
  std::printf("replay: ./dev sim --seed %" PRIu64 "\n", g_running_seed);
  std::fflush(stdout);
  std::signal(SIGABRT, SIG_DFL);
}

bool RunSeed(const Buffers& buffers, uint64_t seed, bool verbose,
             RunStats& total) {
  g_running_seed = seed;
  // The rest of a failed run cannot be destroyed.
  auto* simulation = new Simulation(buffers, seed);
  try {
    const RunStats stats = simulation->Run();
    total.requests += stats.requests;
    total.packets += stats.packets;
    total.resent += stats.resent;
    total.lost += stats.lost;
    total.corrupted += stats.corrupted;
    total.forged += stats.forged;
    total.moves += stats.moves;
    total.blocked += stats.blocked;
    total.connections += stats.connections;
    total.in_error += stats.in_error;
    if (verbose) {
      std::printf("seed %" PRIu64 ": %s; %" PRIu64 " requests, %" PRIu64
                  " packets, %" PRIu64 " resent, %u in error, %.3f ms\n",
                  seed, simulation->Describe().c_str(), stats.requests,
                  stats.packets, stats.resent, stats.in_error,
                  static_cast<double>(stats.virtual_time.ns()) / 1e6);
    }
  } catch (const Violation& violation) {
    std::printf("seed %" PRIu64
                " FAILS: %s\n  (%s)\n  replay: ./dev sim "
                "--seed %" PRIu64 "\n",
                seed, violation.what.c_str(), simulation->Describe().c_str(),
                seed);
    return false;
  }
  delete simulation;
  if (!buffers.AllThere())
    std::printf("seed %" PRIu64 " loses buffers\n", seed);
  return buffers.AllThere();
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, arguments)) {
    std::fprintf(stderr,
                 "usage: sim [--seed N | --seeds A..B | --seconds N] "
                 "[--verbose]\n");
    return 2;
  }
  std::signal(SIGABRT, OnAbort);
  const auto begin = std::chrono::steady_clock::now();
  RunStats total;
  Buffers buffers;
  uint64_t runs = 0;
  bool good = true;
  for (uint64_t seed = arguments.first; seed <= arguments.last && good;
       ++seed) {
    good = RunSeed(buffers, seed, arguments.verbose, total);
    ++runs;
    const std::chrono::duration<double> spent =
        std::chrono::steady_clock::now() - begin;
    if (arguments.seconds > 0 && spent.count() > arguments.seconds) break;
  }
  std::printf(
      "%" PRIu64 " seeds%s; %u connections (%u ended in error), %" PRIu64
      " requests, %" PRIu64 " packets, %" PRIu64 " lost, %" PRIu64
      " corrupted, %" PRIu64 " forged, %" PRIu64 " resent, %" PRIu64
      " moves, %" PRIu64 " times blocked\n",
      runs, good ? "" : ", the last one failed", total.connections,
      total.in_error, total.requests, total.packets, total.lost,
      total.corrupted, total.forged, total.resent, total.moves, total.blocked);
  std::fflush(stdout);
  // One run may have none of these. Many without them test too little.
  const bool enough = (total.moves != 0 && total.forged != 0) || runs < 10;
  _exit(good && enough ? 0 : 1);
}

}  // namespace
}  // namespace urnic::sim

int main(int argc, char** argv) { return urnic::sim::Main(argc, argv); }
