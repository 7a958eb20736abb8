#pragma once

// Parses what qperf prints about TCP.

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace urnic {

struct TcpReport {
  double latency_us = 0;                   // half a round trip of 8 bytes
  double million_messages_per_second = 0;  // of 8 bytes
  double gigabits_per_second = 0;          // with messages of 64 KB; 1e9 bits
};

// The arguments of a client whose output ReadTcpReport() parses.
std::vector<std::string> QperfTests();

// NotFound if a figure is missing; the message contains the output.
absl::StatusOr<TcpReport> ReadTcpReport(const std::string& output);

}  // namespace urnic
