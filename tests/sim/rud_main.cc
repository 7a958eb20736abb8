// rud_sim [--seeds=A..B]: runs the simulators of RUD, for two windows, for
// three, and for groups. For a core that was broken on purpose (mutations.bzl),
// `--expect-violation` inverts the exit status.

#include <cinttypes>
#include <cstdio>
#include <memory>

#include "tests/sim/rud_group_run.h"
#include "tests/sim/rud_run.h"
#include "tests/sim/rud_third_run.h"
#include "tests/sim/seeds.h"
#include "tests/support/counts.h"

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

bool IsTried(const RudGroupStats& total) {
  constexpr RxVerdict kGroupWanted[] = {
      RxVerdict::kAccept,        RxVerdict::kRudStale,
      RxVerdict::kRudDuplicate,  RxVerdict::kRudAnsweredAgain,
      RxVerdict::kRudOldContext, RxVerdict::kRudUnknownContext,
      RxVerdict::kRudWrongKey,   RxVerdict::kRudFifoFull,
      RxVerdict::kRudAccess,     RxVerdict::kRudEnded};
  bool tried = total.transfers != 0 && total.repairs != 0 &&
               total.refused != 0 && total.given_up != 0 &&
               total.rejoins != 0 && total.keys != 0 && total.packets != 0;
  for (const RxVerdict verdict : kGroupWanted) {
    if (total.verdicts[static_cast<size_t>(verdict)] != 0) continue;
    std::printf("never with a group: %s\n",
                kRxVerdictTexts[static_cast<size_t>(verdict)]);
    tried = false;
  }
  return tried;
}

void Print(const RudGroupStats& total) {
  std::printf("groups: %" PRIu64 " transfers, %" PRIu64
              " completions in %" PRIu64 " attempts, %" PRIu64
              " of them for one member, %" PRIu64 " refused, %" PRIu64
              " begun again (%" PRIu64 " after all attempts), %" PRIu64
              " rejoins, %" PRIu64 " keys, %" PRIu64 " packets\n",
              total.transfers, total.completions, total.attempts, total.repairs,
              total.refused, total.restarts, total.given_up, total.rejoins,
              total.keys, total.packets);
}

int Main(int argc, char** argv) {
  Seeds seeds{.last = 1000};
  if (!ParseSeeds("rud_sim", argc, argv, seeds)) return 2;
  RudStats total;
  RudThirdStats third;
  RudGroupStats group;
  int failures = 0;
  for (uint64_t seed = seeds.first; seed <= seeds.last && failures < 10;
       ++seed) {
    try {
      testing::AddCounts(total, RudRun(seed).Run());
      testing::AddCounts(third, RudThirdRun(seed).Run());
      testing::AddCounts(group, std::make_unique<RudGroupRun>(seed)->Run());
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
  Print(group);
  if (failures == 0 && seeds.last - seeds.first >= 100 &&
      !(IsTried(total) && IsTried(third) && IsTried(group))) {
    return 1;
  }
  return failures == 0 && !seeds.expect_violation ? 0 : 1;
}

}  // namespace
}  // namespace urnic::sim

int main(int argc, char** argv) { return urnic::sim::Main(argc, argv); }
