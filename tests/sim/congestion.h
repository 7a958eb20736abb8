#pragma once

// How queue pairs share a slow link with a small buffer: a table that changes
// when, and only when, the protocol's behaviour changes; and what is asked of
// its figures.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/sim/crowd.h"

namespace urnic::sim {

struct CongestionResult {
  // With the bounds that it misses, if it does.
  std::string line;
  bool missed = false;
};

struct CongestionRow {
  std::string name;
  bool quick = false;  // a second or two of real time
  // Deterministic.
  std::function<CongestionResult(const CrowdBuffers& buffers, uint64_t seed)>
      run;
};

// The text above the rows: what they are and how they are measured.
std::string CongestionHead();
std::vector<CongestionRow> CongestionRows();

}  // namespace urnic::sim
