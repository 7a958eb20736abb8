// rud_upper_sim [--seeds=A..B]: runs the simulator of RUD's upper layer. For
// code that was broken on purpose (mutations.bzl), `--expect-violation` inverts
// the exit status.

#include <cinttypes>
#include <cstdio>

#include "tests/sim/rud/upper_run.h"
#include "tests/sim/seeds.h"
#include "tests/support/counts.h"

namespace urnic::sim {
namespace {

struct Count {
  const char* name;
  uint64_t value;
  bool must_be;  // or the rules were not tried
};

bool Print(const RudUpperStats& total) {
  const rud::upper::UpperStats& upper = total.upper;
  const Count counts[] = {
      {"operations done", total.done, true},
      {"canceled", total.failed, true},
      {"messages", total.messages, true},
      {"restarts", total.restarts, true},
      {"dead NICs", total.dead_nics, true},
      {"units", upper.units, true},
      {"commands", upper.commands, true},
      {"small writes in the packet of others", upper.shared, true},
      {"state requests", upper.asked, true},
      {"of them too early", upper.early, true},
      {"packets sent again", upper.packets_again, true},
      {"time-outs", upper.time_outs, true},
      {"dead paths", upper.dead_paths, true},
      {"revived paths", upper.revived_paths, true},
      {"units moved to another NIC", upper.moved, true},
      {"units fenced by the peer", upper.fenced, true},
      {"stale entries", upper.stale, true},
      {"control messages refused", upper.bad_control, true},
  };
  bool tried = true;
  for (const Count& count : counts) {
    std::printf("%10" PRIu64 " %s\n", count.value, count.name);
    tried &= count.value != 0 || !count.must_be;
  }
  return tried;
}

int Main(int argc, char** argv) {
  Seeds seeds{.last = 4000};
  if (!ParseSeeds("rud_upper_sim", argc, argv, seeds)) return 2;
  RudUpperStats total;
  int failures = 0;
  for (uint64_t seed = seeds.first; seed <= seeds.last && failures < 10;
       ++seed) {
    try {
      testing::AddCounts(total, RudUpperRun(seed).Run());
    } catch (const Violation& violation) {
      std::printf("seed %" PRIu64 ": %s\n", seed, violation.what.c_str());
      ++failures;
    }
    if (seeds.expect_violation && failures != 0) return 0;
  }
  const bool tried = Print(total);
  std::printf("%d failures\n", failures);
  if (failures == 0 && seeds.last - seeds.first >= 100 && !tried) return 1;
  return failures == 0 && !seeds.expect_violation ? 0 : 1;
}

}  // namespace
}  // namespace urnic::sim

int main(int argc, char** argv) { return urnic::sim::Main(argc, argv); }
