// cm_sim [--seeds=A..B]: runs the simulator of connection managers, each seed
// without and with moves, and compares the two. For a core that was broken on
// purpose (mutations.bzl), `--expect-violation` inverts the exit status; a
// failed check of the core counts as well.

#include <cinttypes>
#include <cstdio>
#include <memory>

#include "tests/sim/cm_run.h"
#include "tests/sim/seeds.h"

namespace urnic::sim {
namespace {

// Finds where two runs differ.
void Compare(const std::vector<CmStep>& stays,
             const std::vector<CmStep>& moves) {
  size_t n = 0;
  while (n < stays.size() && n < moves.size() && stays[n] == moves[n]) ++n;
  if (n == stays.size() && n == moves.size()) return;
  const auto text = [n](const std::vector<CmStep>& steps) {
    if (n == steps.size()) return std::string("nothing");
    const CmStep& s = steps[n];
    return "at " + std::to_string(s.at.ns()) + " ns, node " +
           std::to_string(s.node) +
           (s.name < 0 ? " sends message "
                       : " hears of " + std::to_string(s.name) + " event ") +
           std::to_string(s.what);
  };
  Violate("who moves does something else: step " + std::to_string(n) + ", " +
          text(stays) + "; moved, " + text(moves));
}

bool RunSeed(uint64_t seed, CmStats& total) {
  try {
    const auto stays =
        std::make_unique<CmRun>(seed, /*moves=*/false)->Run(total);
    const auto moves =
        std::make_unique<CmRun>(seed, /*moves=*/true)->Run(total);
    Compare(stays, moves);
    return true;
  } catch (const Violation& violation) {
    std::printf("cm seed %" PRIu64 ": %s\n", seed, violation.what.c_str());
    return false;
  }
}

int Main(int argc, char** argv) {
  Seeds seeds{.last = 500};
  if (!ParseSeeds("cm_sim", argc, argv, seeds)) return 2;
  if (seeds.expect_violation) PassOnAbort();
  CmStats total;
  int failures = 0;
  for (uint64_t seed = seeds.first; seed <= seeds.last && failures < 10;
       ++seed) {
    failures += RunSeed(seed, total) ? 0 : 1;
    if (seeds.expect_violation && failures != 0) return 0;
  }
  std::printf("%" PRIu64 " ends established, %" PRIu64 " resolved, %" PRIu64
              " moves, in states %x, %d failures\n",
              total.established, total.resolved, total.moves, total.states,
              failures);
  // A simulator in which no connection lasts, or moves, would find nothing
  // wrong.
  const uint64_t runs = 2 * (seeds.last - seeds.first + 1);
  constexpr uint32_t kStates =
      ((2u << static_cast<int>(cm::State::kSidrReqReceived)) - 1) &
      ~(1u << static_cast<int>(cm::State::kListen));
  const bool worked = total.established > 4 * runs &&
                      total.resolved > 2 * runs && total.moves > 10 * runs &&
                      total.states == kStates;
  return failures == 0 && worked && !seeds.expect_violation ? 0 : 1;
}

}  // namespace
}  // namespace urnic::sim

int main(int argc, char** argv) { return urnic::sim::Main(argc, argv); }
