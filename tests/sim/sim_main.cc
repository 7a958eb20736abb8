// sim [--seed N | --seeds A..B | --seconds N] [--verbose]: runs the simulator.
// A failing seed prints the one line that replays it, and is the last.
//
// sim --replay FILE [--qpn N] [--verbose]: what queue pairs of a program were
// given, again (tests/sim/replay.h). FILE is a recording or a dump.

#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ras/recorder/recording.h"
#include "tests/sim/replay.h"
#include "tests/sim/simulation.h"

namespace urnic::sim {
namespace {

struct Arguments {
  uint64_t first = 1;
  uint64_t last = 200;
  double seconds = 0;
  bool verbose = false;
  std::string replay;  // a file
  uint32_t qpn = 0;    // 0: all
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
    } else if (key == "--replay" && !value.empty()) {
      out.replay = value;
    } else if (key == "--qpn" && !value.empty()) {
      char* end = nullptr;
      out.qpn = static_cast<uint32_t>(std::strtoul(value.c_str(), &end, 0));
      if (*end != '\0' || out.qpn == 0) return false;
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
    total.replayed += stats.replayed;
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

int ComplainOf(const std::string& file, const std::string& what) {
  std::fprintf(stderr, "sim: %s: %s\n", file.c_str(), what.c_str());
  return 1;
}

// One log. Returns whether its replay did the same.
bool ReplayLog(const ParsedInputLog& log, const Arguments& arguments) {
  const auto say = [](const std::string& line) { std::puts(line.c_str()); };
  const auto stats = Replay(log, arguments.verbose ? say : ReplayListener());
  std::printf("queue pair 0x%06x: ", log.qpn);
  if (!stats.ok()) {
    std::printf("%s\n", std::string(stats.status().message()).c_str());
    return false;
  }
  std::printf("%" PRIu64 " calls, %" PRIu64 " packets received, %" PRIu64
              " sent, %" PRIu64 " completions (%" PRIu64 " with an error)",
              stats->calls, stats->received, stats->sent, stats->completions,
              stats->errors);
  if (stats->calls == 0) {
    std::printf("; there was no room for a call: give the log more\n");
    return false;
  }
  if (stats->differs_at == 0) {
    std::printf("; as in the program%s\n",
                log.lost ? ", up to where the log had no room" : "");
    return true;
  }
  std::printf("\n  call %" PRIu64 " was another one: %s\n", stats->differs_at,
              stats->difference.c_str());
  return false;
}

int ReplayFile(const Arguments& arguments) {
  const auto recording = ReadRecording(arguments.replay);
  if (!recording.ok()) {
    return ComplainOf(arguments.replay,
                      std::string(recording.status().message()));
  }
  const Recording::Answer* const answer = recording->Find("inputs");
  if (answer == nullptr || answer->text.empty()) {
    return ComplainOf(arguments.replay,
                      "it has no log of inputs: urnic inputs start QPN, or "
                      "URNIC_INPUTS=qps:4 of the program, and then a recording "
                      "or urnic dump --payload");
  }
  if (answer->is_cut) {
    std::fprintf(stderr,
                 "sim: %s: some logs found no room: URNIC_RECORDER=size:16M\n",
                 arguments.replay.c_str());
  }
  std::span<const uint8_t> rest(
      reinterpret_cast<const uint8_t*>(answer->text.data()),
      answer->text.size());
  bool good = !answer->is_cut;
  bool any = false;
  // If a check of the core fails, what came before it has been printed.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  while (!rest.empty()) {
    const auto log = TakeInputLog(rest);
    if (!log.ok())
      return ComplainOf(arguments.replay, std::string(log.status().message()));
    if (arguments.qpn != 0 && arguments.qpn != log->qpn) continue;
    any = true;
    good &= ReplayLog(*log, arguments);
  }
  if (!any)
    return ComplainOf(arguments.replay, "it has no log of that queue pair");
  return good ? 0 : 1;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, arguments)) {
    std::fprintf(stderr,
                 "usage: sim [--seed N | --seeds A..B | --seconds N] "
                 "[--verbose]\n"
                 "       sim --replay FILE [--qpn N] [--verbose]\n");
    return 2;
  }
  if (!arguments.replay.empty()) return ReplayFile(arguments);
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
  std::printf("%" PRIu64
              " seeds%s; %u connections (%u ended in error), %" PRIu64
              " requests, %" PRIu64 " packets, %" PRIu64 " lost, %" PRIu64
              " corrupted, %" PRIu64 " forged, %" PRIu64 " resent, %" PRIu64
              " moves, %" PRIu64 " times blocked, %" PRIu64 " calls replayed\n",
              runs, good ? "" : ", the last one failed", total.connections,
              total.in_error, total.requests, total.packets, total.lost,
              total.corrupted, total.forged, total.resent, total.moves,
              total.blocked, total.replayed);
  std::fflush(stdout);
  // One run may have none of these. Many without them test too little.
  const bool enough = (total.moves != 0 && total.forged != 0) || runs < 10;
  _exit(good && enough ? 0 : 1);
}

}  // namespace
}  // namespace urnic::sim

int main(int argc, char** argv) { return urnic::sim::Main(argc, argv); }
