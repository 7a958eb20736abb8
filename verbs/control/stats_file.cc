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
#include "verbs/abi/file_size_signal.h"
#include "verbs/control/debug_log.h"
#include "verbs/control/owner.h"

namespace urnic::control {
namespace {

// "name": value, of a JSON object under construction.
void AddNumber(std::string& object, const char* name, uint64_t value) {
  absl::StrAppend(&object, object.empty() ? "" : ", ", "\"", name,
                  "\": ", value);
}

std::string EngineObject(const EngineCounters& c) {
  std::string object;
  AddNumber(object, "iterations", c.iterations);
  AddNumber(object, "rx_packets", c.rx_packets);
  AddNumber(object, "tx_packets", c.tx_packets);
  AddNumber(object, "tx_no_mbuf", c.tx_no_mbuf);
  AddNumber(object, "ce_received", c.ce_received);
  AddNumber(object, "placement_faults", c.placement_faults);
  AddNumber(object, "loopback_packets", c.loopback_packets);
  AddNumber(object, "tx_source_gone", c.tx_source_gone);
  AddNumber(object, "requests_sent", c.requests_sent);
  AddNumber(object, "requests_resent", c.requests_resent);
  AddNumber(object, "timeouts", c.timeouts);
  AddNumber(object, "sequence_naks", c.sequence_naks);
  AddNumber(object, "rnr_naks", c.rnr_naks);
  return object;
}

std::string PortObject(const PortCounters& c) {
  std::string object;
  AddNumber(object, "rx_packets", c.rx_packets);
  AddNumber(object, "rx_bytes", c.rx_bytes);
  AddNumber(object, "rx_truncated", c.rx_truncated);
  AddNumber(object, "rx_missed", c.rx_missed);
  AddNumber(object, "rx_no_mbuf", c.rx_no_mbuf);
  AddNumber(object, "tx_packets", c.tx_packets);
  AddNumber(object, "tx_bytes", c.tx_bytes);
  AddNumber(object, "tx_dropped_down", c.tx_dropped_down);
  AddNumber(object, "tx_errors", c.tx_errors);
  AddNumber(object, "incarnations", c.incarnations);
  return object;
}

std::string VerdictObject(const EngineCounters& c) {
  std::string object;
  for (size_t i = 0; i < kRxVerdictCount; ++i) {
    if (c.verdicts[i] != 0)
      AddNumber(object, kRxVerdictNames[i], c.verdicts[i]);
  }
  return object;
}

// Somebody waits for the file, but once is enough.
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

// A program may name itself anything.
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
                      const PortCounters& port) {
  const Owner& owner = ThisProcess();
  return absl::StrCat("{\"device\": \"", device, "\", \"pid\": ", owner.pid,
                      ", \"program\": \"", Escaped(owner.program),
                      "\", \"port\": {", PortObject(port), "}, \"engine\": {",
                      EngineObject(engine), "}, \"verdicts\": {",
                      VerdictObject(engine), "}}");
}

void AppendStats(const char* device, const EngineCounters& engine,
                 const PortCounters& port) {
  const char* path = std::getenv("URNIC_STATS");
  if (path == nullptr || *path == 0) return;
  const std::string line = StatsLine(device, engine, port) + "\n";
  const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  urnic_file_size_signal signal;
  urnic_file_size_signal_off(&signal);
  // In one piece: several processes may share the file.
  if (fd < 0 || write(fd, line.data(), line.size()) !=
                    static_cast<ssize_t>(line.size())) {
    ComplainOnce(path, errno);
  }
  urnic_file_size_signal_back(&signal);
  if (fd >= 0) close(fd);
}

}  // namespace urnic::control
