#include "tests/sim/replay.h"

#include <memory>

#include "absl/status/status.h"
#include "tests/sim/replay_run.h"
#include "transport/iwarp/qp/inputs.h"
#include "transport/rc/inputs.h"

namespace urnic::sim {

absl::StatusOr<ReplayStats> Replay(const ParsedInputLog& log,
                                   const ReplayListener& say) {
  const bool iwarp = log.layout == iwarp::kInputLayout;
  if (!iwarp && log.layout != rc::kInputLayout)
    return absl::InvalidArgumentError(
        "it was written by another version of uRNIC");
  if (log.segments.empty())
    return absl::InvalidArgumentError("nothing was logged");
  ReplayStats stats;
  for (const auto& segment : log.segments) {
    const std::unique_ptr<ReplayRun> run =
        iwarp ? MakeIwarpReplay(log.qpn, stats, say)
              : MakeRcReplay(log.qpn, stats, say);
    const absl::Status done = run->Replay(segment);
    if (!done.ok()) return done;
    if (stats.differs_at != 0) break;
  }
  return stats;
}

}  // namespace urnic::sim
