// unacked_sim [--seeds A..B]: runs the simulator of UC and UD. In a core that
// was broken on purpose (mutants.bzl) `--expect-violation` turns the exit
// status around.

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/unacked.h"

namespace urnic::sim {
namespace {

struct Total {
  uint64_t sent = 0;
  uint64_t received = 0;
  uint64_t moves = 0;
};

template <typename Qp>
bool RunSeed(const char* service, uint64_t seed, Total& total) {
  try {
    const UnackedStats stats = UnackedRun<Qp>(seed).Run();
    total.sent += stats.sent;
    total.received += stats.received;
    total.moves += stats.moves;
    return true;
  } catch (const Violation& violation) {
    std::printf("%s seed %" PRIu64 ": %s\n", service, seed,
                violation.what.c_str());
    return false;
  }
}

int Main(int argc, char** argv) {
  uint64_t first = 1;
  uint64_t last = 1000;
  bool expect_violation = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--expect-violation") == 0) {
      expect_violation = true;
    } else if (std::sscanf(argv[i], "--seeds=%" SCNu64 "..%" SCNu64, &first,
                           &last) != 2) {
      std::fprintf(stderr,
                   "usage: unacked_sim [--seeds=A..B] [--expect-violation]\n");
      return 2;
    }
  }
  Total total;
  int failures = 0;
  for (uint64_t seed = first; seed <= last && failures < 10; ++seed) {
    failures += RunSeed<uc::Qp>("UC", seed, total) ? 0 : 1;
    failures += RunSeed<ud::Qp>("UD", seed, total) ? 0 : 1;
    if (expect_violation && failures != 0) return 0;
  }
  std::printf("%" PRIu64 " messages, %" PRIu64 " received, %" PRIu64
              " moves, %d failures\n",
              total.sent, total.received, total.moves, failures);
  // A simulator that loses everything would find nothing wrong, nor one in
  // which nothing moves.
  const bool worked = total.received > total.sent / 2 && total.moves != 0;
  return failures == 0 && worked && !expect_violation ? 0 : 1;
}

}  // namespace
}  // namespace urnic::sim

int main(int argc, char** argv) { return urnic::sim::Main(argc, argv); }
