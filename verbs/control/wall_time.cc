#include "verbs/control/wall_time.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "datapath/engine/environment.h"

namespace urnic::control {
namespace {

constexpr int64_t kS = 1'000'000'000;

}  // namespace

int64_t ClockOffset::Ns(const std::function<int64_t()>& look) {
  // The thread may be interrupted more than once.
  constexpr int kLooks = 5;
  int64_t kept = ns_.load();
  int64_t most = kNone;
  for (int i = 0; i != kLooks; ++i) {
    most = std::max(most, look());
    if (kept != kNone && std::abs(most - kept) <= kToleranceNs) return kept;
  }
  // Another thread may have been faster.
  return ns_.compare_exchange_strong(kept, most) ? most : kept;
}

int64_t WallTimeNow() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * kS + now.tv_nsec;
}

int64_t WallTimeOf(Time at) {
  static ClockOffset offset;
  return at.ns() + offset.Ns([] { return Environment::WallClockNs(Time()); });
}

std::string WallTimeText(int64_t ns) {
  const time_t seconds = ns / kS;
  tm parts;
  gmtime_r(&seconds, &parts);
  char text[64];
  std::snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ",
                parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                parts.tm_hour, parts.tm_min, parts.tm_sec, ns % kS / 1000);
  return text;
}

std::string WallTimeText(Time at) { return WallTimeText(WallTimeOf(at)); }

}  // namespace urnic::control
