// unreliable_sim [--seeds A..B]: runs the simulator of UC and UD. For a core
// that was broken on purpose (mutations.bzl), `--expect-violation` inverts the
// exit status.

#include <cinttypes>
#include <cstdio>

#include "tests/sim/seeds.h"
#include "tests/sim/unreliable.h"

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
    const UnreliableStats stats = UnreliableRun<Qp>(seed).Run();
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
  Seeds seeds{.last = 1000};
  if (!ParseSeeds("unreliable_sim", argc, argv, seeds)) return 2;
  Total total;
  int failures = 0;
  for (uint64_t seed = seeds.first; seed <= seeds.last && failures < 10;
       ++seed) {
    failures += RunSeed<uc::Qp>("UC", seed, total) ? 0 : 1;
    failures += RunSeed<ud::Qp>("UD", seed, total) ? 0 : 1;
    if (seeds.expect_violation && failures != 0) return 0;
  }
  std::printf("%" PRIu64 " messages, %" PRIu64 " received, %" PRIu64
              " moves, %d failures\n",
              total.sent, total.received, total.moves, failures);
  // A simulator that loses everything would find nothing wrong, nor one in
  // which nothing moves.
  const bool worked = total.received > total.sent / 2 && total.moves != 0;
  return failures == 0 && worked && !seeds.expect_violation ? 0 : 1;
}

}  // namespace
}  // namespace urnic::sim

int main(int argc, char** argv) { return urnic::sim::Main(argc, argv); }
