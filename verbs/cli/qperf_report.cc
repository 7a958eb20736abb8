#include "verbs/cli/qperf_report.h"

#include <sstream>

namespace urnic {
namespace {

// The figures "name = FIGURE unit" of all tests, in order.
std::vector<double> FiguresOf(const std::string& output,
                              const std::string& name,
                              const std::string& unit) {
  std::vector<double> figures;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, equals, last;
    double figure = 0;
    if (words >> first >> equals >> figure >> last && first == name &&
        equals == "=" && last == unit)
      figures.push_back(figure);
  }
  return figures;
}

}  // namespace

std::vector<std::string> QperfTests() {
  // -uu: the same units for all figures; -vs: message rates as well. A size
  // applies to all tests after it.
  return {"-t",      "1",      "-uu", "-vs",   "-m",    "8",
          "tcp_lat", "tcp_bw", "-m",  "65536", "tcp_bw"};
}

absl::StatusOr<TcpReport> ReadTcpReport(const std::string& output) {
  const auto latency_ns = FiguresOf(output, "latency", "ns");
  const auto rates = FiguresOf(output, "msg_rate", "/sec");
  const auto bandwidths = FiguresOf(output, "bw", "bytes/sec");
  if (latency_ns.size() != 1 || rates.size() != 3 || bandwidths.size() != 2)
    return absl::NotFoundError("qperf printed no result:\n" + output);
  return TcpReport{.latency_us = latency_ns[0] / 1e3,
                   .million_messages_per_second = rates[1] / 1e6,
                   .gigabits_per_second = bandwidths[1] * 8 / 1e9};
}

}  // namespace urnic
