#include "verbs/cli/perftest_report.h"

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace urnic {
namespace {

// The last line that consists of figures, at least `wanted` of them.
absl::StatusOr<std::vector<double>> LastFigures(const std::string& output,
                                                size_t wanted) {
  std::vector<double> last;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<double> figures;
    bool only_figures = true;
    // strtod() and not >>: the deviation of a noisy run is "-nan".
    for (std::string word; only_figures && words >> word;) {
      char* end = nullptr;
      figures.push_back(std::strtod(word.c_str(), &end));
      only_figures = *end == '\0';
    }
    if (only_figures && figures.size() >= wanted) last = figures;
  }
  if (last.empty())
    return absl::NotFoundError("perftest printed no results:\n" + output);
  return last;
}

}  // namespace

absl::StatusOr<BandwidthReport> ReadBandwidth(const std::string& output) {
  // bytes, iterations, peak, average, message rate
  const auto figures = LastFigures(output, 5);
  if (!figures.ok()) return figures.status();
  return BandwidthReport{.gigabits_per_second = figures->at(3),
                         .million_messages_per_second = figures->at(4)};
}

absl::StatusOr<double> ReadLatency(const std::string& output) {
  // bytes, iterations, minimum, maximum, typical, average, deviation, ..
  const auto figures = LastFigures(output, 7);
  if (!figures.ok()) return figures.status();
  return figures->at(4);
}

}  // namespace urnic
