#pragma once

// A rule for runs: what queue pairs were given does the same again.

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "ras/inputs/input_log.h"
#include "tests/sim/replay.h"
#include "tests/sim/world.h"

namespace urnic::sim {

// Replays the log. Returns the number of calls.
inline uint64_t CheckReplay(const InputLog& inputs) {
  std::string text;
  inputs.AppendTo(text);
  std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(text.data()),
                                 text.size());
  const auto log = TakeInputLog(bytes);
  Require(log.ok() && bytes.empty(), "the log of inputs is damaged");
  const auto stats = Replay(*log, nullptr);
  if (!stats.ok()) Violate(absl::StrCat(stats.status().message()));
  if (stats->differs_at != 0) {
    (void)Replay(*log,
                 [](const std::string& line) { std::puts(line.c_str()); });
    Violate(absl::StrCat("a replay differs at call ", stats->differs_at, ": ",
                         stats->difference));
  }
  return stats->calls;
}

}  // namespace urnic::sim
