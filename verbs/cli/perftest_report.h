#pragma once

// Parses the line of figures that a perftest program prints at its end.

#include <string>

#include "absl/status/statusor.h"

namespace urnic {

struct BandwidthReport {
  double gigabits_per_second = 0;  // average; 1e9 bits
  double million_messages_per_second = 0;
};

// `output` of ib_*_bw run with --report_gbits. NotFound without such a line.
absl::StatusOr<BandwidthReport> ReadBandwidth(const std::string& output);

// `output` of ib_*_lat: the typical time in microseconds, which is half a round
// trip for send and write, and a whole one for read and atomics.
absl::StatusOr<double> ReadLatency(const std::string& output);

}  // namespace urnic
