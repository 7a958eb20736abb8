#pragma once

// The table of `urnic top`, from two looks at all programs. Pure.

#include <chrono>
#include <string>
#include <vector>

#include "ras/facts/facts.h"

namespace urnic {

struct TopLook {
  std::chrono::steady_clock::time_point at;
  std::vector<Facts> stats;  // stat
  std::vector<Facts> qps;    // qp
};

// A line for each port and, the busiest first, for each queue pair, in at most
// `lines` lines with the headings; 0: all. Rates are those between the looks;
// what `before` does not have is shown with "-".
std::string TopText(const TopLook& before, const TopLook& now, size_t lines);

}  // namespace urnic
