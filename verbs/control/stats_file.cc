#include "verbs/control/stats_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "ras/metrics/counters.h"
#include "verbs/control/debug_log.h"
#include "verbs/control/owner.h"
#include "verbs/libc/file_size_signal.h"

namespace urnic::control {
namespace {

// Adds "name": value to a JSON object.
void AddNumber(std::string& object, const std::string& name, uint64_t value) {
  absl::StrAppend(&object, object.empty() ? "" : ", ", "\"", name,
                  "\": ", value);
}

// The counters of all lists, as members of one object.
template <typename... Lists>
std::string ObjectOf(const Lists&... lists) {
  std::string object;
  const auto add = [&object](const char* name, uint64_t value, const char*) {
    AddNumber(object, name, value);
  };
  (ForEachCounter(lists, add), ...);
  return object;
}

std::string CountsObject(const impair::CountValues& counts) {
  std::string object;
  for (size_t i = 0; i < impair::kCounts; ++i) {
    AddNumber(object, impair::kCountNames[i], counts.values[i]);
  }
  return object;
}

// The member "fault" and a comma; empty if the port has no faults.
std::string FaultMember(const FaultCounts& c) {
  if (c.out.of(impair::Count::k_offered) == 0 &&
      c.in.of(impair::Count::k_offered) == 0) {
    return "";
  }
  return absl::StrCat("\"fault\": {\"out\": {", CountsObject(c.out),
                      "}, \"in\": {", CountsObject(c.in), "}}, ");
}

std::string TerminateObject(const TerminateCounts& counts) {
  std::string object;
  for (const TerminateCounts::Entry& entry : counts.entries) {
    if (entry.count == 0) break;
    AddNumber(object,
              absl::StrCat("0x", absl::Hex(entry.error, absl::kZeroPad4)),
              entry.count);
  }
  if (counts.others != 0) AddNumber(object, "others", counts.others);
  return object;
}

// The member "iwarp" and a comma; empty if nothing was counted.
std::string IwarpMember(const EngineCounters& c) {
  uint64_t sum = 0;
  ForEachCounter(c.iwarp, [&sum](const char*, uint64_t value, const char*) {
    sum += value;
  });
  if (sum == 0) return "";
  return absl::StrCat("\"iwarp\": {", ObjectOf(c.iwarp),
                      ", \"terminates\": {\"sent\": {",
                      TerminateObject(c.terminates_sent), "}, \"received\": {",
                      TerminateObject(c.terminates_received), "}}}, ");
}

// The member "roce" and a comma; empty if the port has had no queue pair of
// RoCE.
std::string RoceMember(const EngineCounters& c) {
  if (c.roce_qps == 0) return "";
  return absl::StrCat("\"roce\": {", ObjectOf(c.roce), "}, ");
}

std::string VerdictObject(const EngineCounters& c) {
  std::string object;
  for (size_t i = 0; i < kRxVerdictCount; ++i) {
    if (c.verdicts[i] != 0)
      AddNumber(object, kRxVerdictNames[i], c.verdicts[i]);
  }
  return object;
}

// Complains on stderr, because the user expects the file, but only once.
void ComplainOnce(const char* path, int error) {
  static std::atomic<bool> told = false;
  const std::string text =
      absl::StrCat("URNIC_STATS=", path, ": ", std::strerror(error));
  if (told.exchange(true)) {
    DebugLog(text);
  } else {
    ComplainLoudly(text);
  }
}

// A program's name may contain any character.
std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = c >= ' ' && c < 0x7f && c != '"' && c != '\\';
    out.push_back(plain ? c : '?');
  }
  return out;
}

}  // namespace

std::string StatsLine(const char* device, const EngineCounters& engine,
                      const PortCounters& port, const FaultCounts& faults) {
  const Owner& owner = ThisProcess();
  return absl::StrCat(
      "{\"device\": \"", device, "\", \"pid\": ", owner.pid,
      ", \"program\": \"", Escaped(owner.program), "\", \"port\": {",
      ObjectOf(port), "}, ", FaultMember(faults), "\"engine\": {",
      ObjectOf(engine, engine.requesters), "}, ", RoceMember(engine),
      IwarpMember(engine), "\"verdicts\": {", VerdictObject(engine), "}}");
}

bool StatsAreWanted() {
  const char* path = std::getenv("URNIC_STATS");
  return path != nullptr && *path != 0;
}

void AppendStats(const char* device, const EngineCounters& engine,
                 const PortCounters& port, const FaultCounts& faults) {
  const char* path = std::getenv("URNIC_STATS");
  const std::string line = StatsLine(device, engine, port, faults) + "\n";
  const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  urnic_file_size_signal signal;
  urnic_file_size_signal_off(&signal);
  // In one write(): several processes may share the file.
  if (fd < 0 || write(fd, line.data(), line.size()) !=
                    static_cast<ssize_t>(line.size())) {
    ComplainOnce(path, errno);
  }
  urnic_file_size_signal_back(&signal);
  if (fd >= 0) close(fd);
}

}  // namespace urnic::control
