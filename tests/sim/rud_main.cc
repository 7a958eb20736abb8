// rud_sim [--seeds=A..B]: runs the simulators of RUD, for two windows and for
// three. For a core that was broken
// on purpose (mutants.bzl), `--expect-violation` inverts the exit status.

#include <cinttypes>
#include <cstdio>

#include "tests/sim/rud_run.h"
#include "tests/sim/rud_third_run.h"
#include "tests/sim/seeds.h"

namespace urnic::sim {
namespace {

// What must have happened, or the rules were not tried.
constexpr RxVerdict kWanted[] = {
    RxVerdict::kAccept,           RxVerdict::kRudStale,
    RxVerdict::kRudDuplicate,     RxVerdict::kRudAnsweredAgain,
    RxVerdict::kRudOldContext,    RxVerdict::kRudBusy,
    RxVerdict::kRudFifoFull,      RxVerdict::kRudBadCrc,
    RxVerdict::kRudUnknownContext};

bool IsTried(const RudStats& total) {
  bool tried = total.transfers != 0 && total.refused != 0 &&
               total.restarts != 0 && total.replayed != 0;
  for (const RxVerdict verdict : kWanted) {
    if (total.verdicts[static_cast<size_t>(verdict)] != 0) continue;
    std::printf("never: %s\n", kRxVerdictTexts[static_cast<size_t>(verdict)]);
    tried = false;
  }
  return tried;
}

bool IsTried(const RudThirdStats& total) {
  constexpr RxVerdict kThirdWanted[] = {
      RxVerdict::kAccept,        RxVerdict::kRudStale,
      RxVerdict::kRudDuplicate,  RxVerdict::kRudAnsweredAgain,
      RxVerdict::kRudOldContext, RxVerdict::kRudBusy,
      RxVerdict::kRudFifoFull,   RxVerdict::kRudEnded};
  bool tried = total.transfers != 0 && total.refused != 0 && total.signals != 0;
  for (const RxVerdict verdict : kThirdWanted) {
    if (total.verdicts[static_cast<size_t>(verdict)] != 0) continue;
    std::printf("never with three windows: %s\n",
                kRxVerdictTexts[static_cast<size_t>(verdict)]);
    tried = false;
  }
  return tried;
}

void AddTo(RudThirdStats& total, const RudThirdStats& stats) {
  total.transfers += stats.transfers;
  total.attempts += stats.attempts;
  total.refused += stats.refused;
  total.signals += stats.signals;
  for (size_t i = 0; i < total.verdicts.size(); ++i)
    total.verdicts[i] += stats.verdicts[i];
}

void AddTo(RudStats& total, const RudStats& stats) {
  total.transfers += stats.transfers;
  total.attempts += stats.attempts;
  total.refused += stats.refused;
  total.replayed += stats.replayed;
  total.restarts += stats.restarts;
  for (size_t i = 0; i < total.verdicts.size(); ++i)
    total.verdicts[i] += stats.verdicts[i];
}

int Main(int argc, char** argv) {
  Seeds seeds{.last = 1000};
  if (!ParseSeeds("rud_sim", argc, argv, seeds)) return 2;
  RudStats total;
  RudThirdStats third;
  int failures = 0;
  for (uint64_t seed = seeds.first; seed <= seeds.last && failures < 10;
       ++seed) {
    try {
      AddTo(total, RudRun(seed).Run());
      AddTo(third, RudThirdRun(seed).Run());
    } catch (const Violation& violation) {
      std::printf("seed %" PRIu64 ": %s\n", seed, violation.what.c_str());
      ++failures;
    }
    if (seeds.expect_violation && failures != 0) return 0;
  }
  std::printf("%" PRIu64 " transfers in %" PRIu64 " attempts, %" PRIu64
              " refused, %" PRIu64 " old packets, %" PRIu64
              " restarts, %d failures\n",
              total.transfers, total.attempts, total.refused, total.replayed,
              total.restarts, failures);
  std::printf("third party: %" PRIu64 " transfers in %" PRIu64
              " attempts, %" PRIu64 " refused, %" PRIu64 " signals\n",
              third.transfers, third.attempts, third.refused, third.signals);
  if (failures == 0 && seeds.last - seeds.first >= 100 &&
      !(IsTried(total) && IsTried(third))) {
    return 1;
  }
  return failures == 0 && !seeds.expect_violation ? 0 : 1;
}

}  // namespace
}  // namespace urnic::sim

int main(int argc, char** argv) { return urnic::sim::Main(argc, argv); }
