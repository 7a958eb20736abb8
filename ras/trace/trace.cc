#include "ras/trace/trace.h"

#include <sched.h>
#include <sys/sdt.h>

#include <algorithm>
#include <string>
#include <vector>

namespace urnic {

void TraceLevels::Set(TraceComponent component, uint8_t level) {
  levels_[static_cast<size_t>(component)] = level;
  hot_ = std::ranges::any_of(levels_, [](const std::atomic<uint8_t>& each) {
    return each >= trace_level::kHotFunctions;
  });
}

namespace {

struct Setting {
  size_t first;  // component
  size_t last;   // one behind
  uint8_t level;
};

bool ParseSetting(std::string_view word, Setting& setting,
                  std::string& mistake) {
  const size_t equals = std::min(word.find('='), word.size());
  const std::string_view name = word.substr(0, equals);
  const std::string_view digits =
      word.substr(std::min(equals + 1, word.size()));
  const auto* const found =
      std::ranges::find(kTraceComponents, name, &TraceComponentWords::name);
  if (name == "all") {
    setting = {0, TraceLevels::kComponents, 0};
  } else if (found != std::end(kTraceComponents)) {
    const auto at = static_cast<size_t>(found - kTraceComponents);
    setting = {at, at + 1, 0};
  } else {
    mistake =
        "\"" + std::string(name) + "\" is unknown; the components are all";
    for (const TraceComponentWords& each : kTraceComponents)
      mistake += ", " + std::string(each.name);
    return false;
  }
  if (digits.size() == 1 && digits[0] >= '0' && digits[0] <= '9') {
    setting.level = static_cast<uint8_t>(digits[0] - '0');
    return true;
  }
  mistake = "\"" + std::string(word) + "\": a level is a digit from 0 to 9";
  return false;
}

}  // namespace

bool SetTraceLevels(std::string_view text, TraceLevels& levels,
                    std::string& mistake) {
  std::vector<Setting> settings;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    Setting setting;
    if (!ParseSetting(text.substr(at, comma - at), setting, mistake))
      return false;
    settings.push_back(setting);
    at = comma + 1;
  }
  for (const Setting& setting : settings) {
    for (size_t i = setting.first; i != setting.last; ++i)
      levels.Set(static_cast<TraceComponent>(i), setting.level);
  }
  return true;
}

void Trace::Keep(TracePoint point, TraceSubject subject,
                 const std::array<uint64_t, 4>& words,
                 const TracePlace& place) {
  // For bpftrace and perf: the probe urnic:trace.
  STAP_PROBE7(urnic, trace, WordsOf(point).name.data(), subject.qpn, words[0],
              words[1], words[2], words[3], subject.iwarp);
  if (__builtin_expect(held_, 0)) {
    ++missed_;
    return;
  }
  entries_.Add({.at_ns = clock_().ns(),
                .file = place.file,
                .function = place.function,
                .words = {words[0], words[1], words[2], words[3]},
                .qpn = subject.qpn & 0xffffff,
                .point = static_cast<uint8_t>(point),
                .iwarp = subject.iwarp,
                .line = place.line,
                .cpu = static_cast<uint16_t>(sched_getcpu())});
}

TraceEvent Trace::Of(const Entry& entry) {
  return {
      .at = Time::FromNs(entry.at_ns),
      .point = static_cast<TracePoint>(entry.point),
      .subject = {.qpn = entry.qpn, .iwarp = entry.iwarp != 0},
      .cpu = entry.cpu,
      .words = {entry.words[0], entry.words[1], entry.words[2], entry.words[3]},
      .place = {entry.file, entry.function, entry.line}};
}

}  // namespace urnic
