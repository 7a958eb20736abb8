#include "verbs/control/control_commands.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "datapath/engine/connection_table.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_table.h"
#include "datapath/port/port.h"
#include "ras/metrics/counters.h"
#include "verbs/control/answer.h"
#include "verbs/control/capture_commands.h"
#include "verbs/control/control_protocol.h"
#include "verbs/control/debug_log.h"
#include "verbs/control/dump.h"
#include "verbs/control/gid_table.h"
#include "verbs/control/input_logs.h"
#include "verbs/control/object_facts.h"
#include "verbs/control/open_nic.h"
#include "verbs/control/ring_facts.h"
#include "verbs/control/stat_facts.h"
#include "verbs/control/trace_facts.h"
#include "verbs/identity/device_identity.h"
#include "verbs/identity/sysfs_counters.h"

namespace urnic::control {

namespace {

std::atomic<const ConnectionHooks*> g_connection_hooks = nullptr;

std::string Line(const OpenNic& nic, const GidPair& pair) {
  const bool has_index = (nic.identity().kinds & 1u << URNIC_DEVICE_ROCE) != 0;
  return absl::StrCat(has_index ? absl::StrCat(pair.index) : "-", " ",
                      AddressText(pair.gid, pair.prefix_bits),
                      pair.is_iwarp ? ",iwarp" : "", "\n");
}

std::string List(const OpenNic& nic) {
  std::string answer = "ok\n";
  for (const GidPair& pair : nic.gids().Pairs()) answer += Line(nic, pair);
  return answer;
}

std::string Change(OpenNic& nic, bool add, const std::string& text) {
  urnic_ip_address address = {};
  char error[128];
  if (urnic_ip_address_parse(text.c_str(), &address, error, sizeof(error)) !=
      0) {
    return RefusedAnswer(error);
  }
  wire::Gid gid;
  urnic_ip_address_gid(&address, gid.bytes.data());
  auto before = nic.gids().Pairs();
  const absl::Status done =
      add ? nic.AddAddress(address) : nic.RemoveAddress(address);
  if (!done.ok()) return RefusedAnswer(std::string(done.message()));
  DebugLog(absl::StrCat(nic.name(), ": address ", text,
                        add ? " added" : " removed"));
  const auto pairs = add ? nic.gids().Pairs() : std::move(before);
  const auto at = std::find_if(pairs.begin(), pairs.end(),
                               [&](const GidPair& p) { return p.gid == gid; });
  // Another thread may have removed the address again.
  return at == pairs.end() ? "ok\n" : "ok\n" + Line(nic, *at);
}

std::string ListRoutes(const OpenNic& nic) {
  // The limit of a line, including the last one, which has the number of routes
  // that are left out.
  constexpr size_t kLongest = 256;
  const auto entries = nic.routes().List();
  std::string answer = "ok\n";
  for (size_t i = 0; i < entries.size(); ++i) {
    if (answer.size() + 2 * kLongest > URNIC_CONTROL_ANSWER_MAX) {
      absl::StrAppend(&answer, entries.size() - i, " more\n");
      break;
    }
    absl::StrAppend(&answer, RouteText(entries[i].route), " proto ",
                    entries[i].of_kernel ? "kernel" : "static", "\n");
  }
  return answer;
}

std::string ChangeRoute(OpenNic& nic, bool add, std::string_view text) {
  const auto route = ParseRoute(text);
  if (!route.ok()) return RefusedAnswer(std::string(route.status().message()));
  const absl::Status done =
      add ? nic.AddRoute(*route) : nic.RemoveRoute(*route);
  if (!done.ok()) return RefusedAnswer(std::string(done.message()));
  DebugLog(absl::StrCat(nic.name(), ": route ", RouteText(*route),
                        add ? " added" : " removed"));
  return "ok\n";
}

#define URNIC_MEMBER(name) uint64_t name = 0;
struct SysfsCounters {
  URNIC_SYSFS_COUNTERS(URNIC_MEMBER)
};
#undef URNIC_MEMBER

SysfsCounters CountersOf(OpenNic& nic) {
  constexpr uint64_t kUnit = 4;
  constexpr auto kBadIcrc = static_cast<size_t>(RxVerdict::kBadIcrc);
  const PortCounters port = nic.port().counters();
  return {.port_xmit_data = port.tx_bytes / kUnit,
          .port_xmit_packets = port.tx_packets,
          .port_xmit_discards = port.tx_dropped_down + port.tx_errors,
          .port_rcv_data = port.rx_bytes / kUnit,
          .port_rcv_packets = port.rx_packets,
          .port_rcv_errors = port.rx_truncated + port.rx_missed +
                             port.rx_no_mbuf +
                             nic.engine().counters().verdicts[kBadIcrc]};
}

// Checks that each list has all counters of its kind.
#define URNIC_ONE(name) +1
static_assert(0 URNIC_SYSFS_IWARP_COUNTERS(URNIC_ONE) ==
              sizeof(IwarpCounters) / sizeof(uint64_t));
static_assert(0 URNIC_SYSFS_ROCE_COUNTERS(URNIC_ONE) ==
              sizeof(RoceCounters) / sizeof(uint64_t));
#undef URNIC_ONE

std::string HwLines(OpenNic& nic) {
  const EngineCounters all = nic.CountersOfAll();
  std::string lines;
#define URNIC_LINE(name) \
  absl::StrAppend(&lines, #name, " ", all.roce.name, "\n");
  if ((nic.identity().kinds & 1u << URNIC_DEVICE_ROCE) != 0) {
    URNIC_SYSFS_ROCE_COUNTERS(URNIC_LINE)
  }
#undef URNIC_LINE
#define URNIC_LINE(name)                                                     \
  absl::StrAppend(&lines, URNIC_SYSFS_IWARP_NAME(name), " ", all.iwarp.name, \
                  "\n");
  if ((nic.identity().kinds & 1u << URNIC_DEVICE_IWARP) != 0) {
    URNIC_SYSFS_IWARP_COUNTERS(URNIC_LINE)
  }
#undef URNIC_LINE
  return lines;
}

std::string ListCounters(OpenNic& nic) {
  struct stat net = {};
  (void)stat("/proc/thread-self/ns/net", &net);
  const SysfsCounters counters = CountersOf(nic);
  std::string answer = absl::StrCat("ok\nport ", nic.identity().dev, "\nnetns ",
                                    net.st_ino, "\n");
#define URNIC_LINE(name) \
  absl::StrAppend(&answer, #name, " ", counters.name, "\n");
  URNIC_SYSFS_COUNTERS(URNIC_LINE)
#undef URNIC_LINE
  return answer + HwLines(nic);
}

// Sends what `append(place, enough, out)` appends (QpTable::AppendImages()),
// one batch at a time: the engine runs in between, and a program with many
// queue pairs does not need memory for all of their images.
template <typename Append>
bool SendBatches(OpenNic& nic, const ControlSocket::Reply& reply,
                 const Append& append) {
  constexpr size_t kBatchBytes = 16 * 1024;
  std::string images;
  std::optional<uint32_t> next = 0;
  while (next.has_value()) {
    images.clear();
    {
      Engine::ControlScope scope(nic.engine());
      next = append(*next, kBatchBytes, images);
    }
    if (!reply(images)) return false;
  }
  return true;
}

void SendState(OpenNic& nic, const ControlSocket::Reply& reply) {
  if (!reply("ok\n")) return;
  const auto qps = [&](uint32_t place, size_t enough, std::string& out) {
    return nic.engine().qps().AppendImages(place, enough, out);
  };
  if (!SendBatches(nic, reply, qps)) return;
  const auto connections = [&](uint32_t place, size_t enough,
                               std::string& out) {
    return nic.engine().connections().AppendImages(place, enough, out);
  };
  if (nic.network().serves_iwarp() && !SendBatches(nic, reply, connections)) {
    return;
  }
  const ConnectionHooks* const hooks = g_connection_hooks.load();
  if (hooks == nullptr) return;
  for (const std::string& device : nic.DeviceNames()) {
    if (!hooks->send_images(device, reply)) return;
  }
}

// Appends lines of facts, from a number on; returns the number to continue
// from.
using Describer =
    std::function<std::optional<uint64_t>(uint64_t, std::string&)>;

// The functions that describe all objects of a kind. Empty: there is no such
// kind.
std::vector<Describer> DescribersOf(OpenNic& nic, std::string_view kind) {
  if (kind == "event")
    return {[&](uint64_t n, auto& out) { return DescribeEvents(nic, n, out); }};
  if (kind == "error")
    return {[&](uint64_t n, auto& out) { return DescribeErrors(nic, n, out); }};
  if (kind == "snapshot") {
    return {
        [&](uint64_t n, auto& out) { return DescribeSnapshots(nic, n, out); }};
  }
  if (kind == "stat")
    return {[&](uint64_t, auto& out) {
      DescribeStats(nic, out);
      return std::nullopt;
    }};
  if (kind == "memory")
    return {[&](uint64_t, auto& out) {
      DescribeMemory(nic, out);
      return std::nullopt;
    }};
  if (kind == "offender")
    return {[&](uint64_t, auto& out) {
      nic.offenders().Describe(nic, out);
      return std::nullopt;
    }};
  if (kind == "inputs")
    return {[&](uint64_t, auto& out) {
      Engine::ControlScope scope(nic.engine());
      nic.input_logs().Describe(nic, out);
      return std::nullopt;
    }};
  if (kind == "trace") {
    const auto reader = std::make_shared<TraceReader>(nic);
    return {
        [reader](uint64_t n, auto& out) { return reader->Describe(n, out); }};
  }
  if (kind == "trace-level")
    return {[&](uint64_t, auto& out) {
      DescribeTraceLevels(nic, out);
      return std::nullopt;
    }};
  const auto what = ObjectKindOf(kind);
  if (!what && kind != "cm_id") return {};
  std::vector<Describer> describers;
  for (const std::string& device : nic.DeviceNames()) {
    if (what) {
      describers.push_back([&nic, what, device](uint64_t serial, auto& out) {
        return nic.Describe(device, *what, serial, out);
      });
    } else if (const auto* const hooks = g_connection_hooks.load()) {
      describers.push_back([hooks, device](uint64_t serial, auto& out) {
        return hooks->describe_ids(device, serial, out);
      });
    }
  }
  return describers;
}

// Sends the lines of facts of all objects of a kind, a few at a time.
void SendFacts(OpenNic& nic, std::string_view kind,
               const ControlSocket::Reply& reply) {
  const auto describers = DescribersOf(nic, kind);
  if (describers.empty() && kind != "cm_id") {
    reply(RefusedAnswer(
        absl::StrCat("no objects are called \"", std::string(kind), "\"")));
    return;
  }
  std::string lines = "ok\n";
  for (const Describer& describe : describers) {
    std::optional<uint64_t> next = 0;
    while (next.has_value()) {
      next = describe(*next, lines);
      if (!reply(lines)) return;
      lines.clear();
    }
  }
  if (!lines.empty()) reply(lines);
}

std::string SetTrace(OpenNic& nic, std::string_view text) {
  std::string mistake;
  return SetTraceLevels(text, nic.engine().trace().levels(), mistake)
             ? "ok\n"
             : RefusedAnswer(mistake);
}

std::string Answer(OpenNic& nic, std::string_view request) {
  const auto is = [&](std::string_view words) {
    return request.starts_with(words);
  };
  const auto rest = [&](std::string_view words) {
    return request.substr(words.size());
  };
  if (request == "addr") return List(nic);
  if (request == "route") return ListRoutes(nic);
  if (request == "counters") return ListCounters(nic);
  if (is("trace ")) return SetTrace(nic, rest("trace "));
  if (is("inputs ")) return AnswerInputs(nic, rest("inputs "));
  if (is("capture ")) return AnswerCapture(nic, std::string(rest("capture ")));
  for (const bool add : {true, false}) {
    const std::string_view addr = add ? "addr add " : "addr del ";
    if (is(addr)) return Change(nic, add, std::string(rest(addr)));
    const std::string_view route = add ? "route add " : "route del ";
    if (is(route)) return ChangeRoute(nic, add, rest(route));
  }
  return RefusedAnswer(
      "unknown request; the requests are addr and route (alone, with add, with "
      "del), counters, show KIND, state, inputs, dump MS [payload], trace "
      "LEVELS "
      "and capture");
}

// Parses "dump MS [payload]".
std::optional<DumpRequest> DumpRequestOf(std::string_view request) {
  constexpr std::string_view kDump = "dump ";
  constexpr std::string_view kPayload = " payload";
  constexpr uint32_t kMost = 10'000;
  uint32_t ms = 0;
  if (!request.starts_with(kDump)) return std::nullopt;
  request.remove_prefix(kDump.size());
  const bool payload = request.ends_with(kPayload);
  if (payload) request.remove_suffix(kPayload.size());
  if (!absl::SimpleAtoi({request.data(), request.size()}, &ms) || ms > kMost) {
    return std::nullopt;
  }
  return DumpRequest{.longest = Duration::Milliseconds(ms), .payload = payload};
}

void SendInputs(OpenNic& nic, const ControlSocket::Reply& reply) {
  if (!reply("ok\n")) return;
  nic.input_logs().Send(nic, reply);
}

}  // namespace

void SetConnectionHooks(const ConnectionHooks* hooks) {
  g_connection_hooks.store(hooks);
}

const ConnectionHooks* TheConnectionHooks() {
  return g_connection_hooks.load();
}

void AnswerControl(OpenNic& nic, std::string_view request,
                   const ControlSocket::Reply& reply) {
  constexpr std::string_view kShow = "show ";
  if (request == "state") return SendState(nic, reply);
  if (request == "inputs") return SendInputs(nic, reply);
  if (const auto dump = DumpRequestOf(request))
    return SendDump(nic, *dump, reply);
  if (request.starts_with(kShow)) {
    return SendFacts(nic, request.substr(kShow.size()), reply);
  }
  reply(Answer(nic, request));
}

}  // namespace urnic::control
