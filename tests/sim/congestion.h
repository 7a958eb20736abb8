#pragma once

// How queue pairs share a slow link with a small buffer: a table that changes
// when, and only when, the protocol's behaviour changes.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/sim/crowd.h"

namespace urnic::sim {

struct CongestionRow {
  std::string name;
  bool quick = false;  // a second or two of real time
  // The row's line, deterministic.
  std::function<std::string(const CrowdBuffers& buffers, uint64_t seed)> run;
};

// The text above the rows: what they are and how they are measured.
std::string CongestionHead();
std::vector<CongestionRow> CongestionRows();

}  // namespace urnic::sim
