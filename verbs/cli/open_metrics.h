#pragma once

// What programs tell of their RNICs, as OpenMetrics text
// (https://openmetrics.io), which Prometheus and others read. Pure.

#include <string>
#include <vector>

#include "ras/facts/facts.h"

namespace urnic {

// The objects of all programs, by kind of `urnic show`.
struct MetricSources {
  std::vector<Facts> devices;  // dev
  std::vector<Facts> links;    // link
  std::vector<Facts> stats;    // stat
  std::vector<Facts> qps;      // qp; empty: no metrics for each queue pair
};

// Counters are urnic_LIST_NAME_total, as in urnic_port_rx_packets_total, with
// the labels device, pid and comm; verdicts are urnic_verdict_packets_total
// with layer and verdict; errors are urnic_errors_total with code. Gauges are
// urnic_objects by kind, urnic_link_up, and those of queue pairs. Ends with
// "# EOF".
std::string OpenMetricsText(const MetricSources& sources);

}  // namespace urnic
