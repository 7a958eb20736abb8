#include "verbs/control/stat_facts.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "datapath/port/port.h"
#include "ras/errors/error_code.h"
#include "ras/facts/facts.h"
#include "ras/metrics/counters.h"
#include "ras/metrics/verdict_layer.h"
#include "transport/cc/round_trip_counts.h"
#include "verbs/control/limits.h"
#include "verbs/control/open_nic.h"
#include "verbs/control/owner.h"

namespace urnic::control {
namespace {

using Values = std::vector<std::pair<std::string, uint64_t>>;

// `layer`: the layer of verdicts; empty for other lists.
void Describe(const OpenNic& nic, std::string_view list, std::string_view layer,
              const Values& values, std::string& out) {
  FactWriter facts("stat", out);
  facts.Add("link", absl::StrCat(nic.name(), "/", kPortNumber));
  facts.Add("list", list);
  if (!layer.empty()) facts.Add("layer", layer);
  AddOwner(ThisProcess(), facts);
  for (const auto& [name, value] : values) {
    if (value != 0) facts.Add(name, value);
  }
  facts.BeginDetails();
  for (const auto& [name, value] : values) {
    if (value == 0) facts.Add(name, value);
  }
}

template <typename Counters>
Values ValuesOf(const Counters& counters) {
  Values values;
  ForEachCounter(counters, [&](std::string name, uint64_t value, const char*) {
    std::ranges::replace(name, '_', '-');
    values.emplace_back(std::move(name), value);
  });
  return values;
}

// "BadIcrc": "bad-icrc".
std::string FactName(std::string_view verdict) {
  std::string name;
  for (const char c : verdict) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isupper(byte) && !name.empty()) name += '-';
    name += static_cast<char>(std::tolower(byte));
  }
  return name;
}

Values VerdictsOf(const EngineCounters& counters, VerdictLayer layer) {
  Values values;
  for (size_t i = 0; i < kRxVerdictCount; ++i) {
    if (LayerOf(static_cast<RxVerdict>(i)) == layer)
      values.emplace_back(FactName(kRxVerdictNames[i]), counters.verdicts[i]);
  }
  return values;
}

Values ErrorsOf(const Failures& failures) {
  Values values;
  for (const ErrorWords& words : AllErrors()) {
    std::string name = ErrorName(words.code);
    for (char& c : name)
      c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    values.emplace_back(std::move(name), failures.CountOf(words.code));
  }
  return values;
}

// The numbers of round trips below 1 us, from 1 to 2 us, from 2 to 4 us, and so
// on.
Values RoundTripsOf(const cc::RoundTripCounts& trips) {
  Values values;
  for (size_t i = 0; i != trips.counts.size(); ++i) {
    const bool last = i + 1 == trips.counts.size();
    values.emplace_back(
        last ? "longer" : absl::StrCat("lt-", uint64_t{1} << i, "us"),
        trips.counts[i]);
  }
  return values;
}

}  // namespace

void DescribeStats(OpenNic& nic, std::string& out) {
  const PortCounters port = nic.port().counters();
  EngineCounters counters;
  cc::RoundTripCounts round_trips;
  Values errors;
  {
    Engine::ControlScope scope(nic.engine());
    counters = nic.engine().CountersOfAll();
    round_trips = nic.engine().RoundTripsOfAll();
    errors = ErrorsOf(nic.engine().failures());
  }
  Describe(nic, "port", "", ValuesOf(port), out);
  Describe(nic, "engine", "", ValuesOf(counters), out);
  Describe(nic, "requester", "", ValuesOf(counters.requesters), out);
  if ((nic.identity().kinds & 1u << URNIC_DEVICE_ROCE) != 0)
    Describe(nic, "roce", "", ValuesOf(counters.roce), out);
  if ((nic.identity().kinds & 1u << URNIC_DEVICE_IWARP) != 0)
    Describe(nic, "iwarp", "", ValuesOf(counters.iwarp), out);
  for (size_t layer = 0; layer < std::size(kVerdictLayerNames); ++layer) {
    Describe(nic, "verdict", kVerdictLayerNames[layer],
             VerdictsOf(counters, static_cast<VerdictLayer>(layer)), out);
  }
  Describe(nic, "round-trips", "", RoundTripsOf(round_trips), out);
  Describe(nic, "error", "", errors, out);
}

void DescribeMemory(OpenNic& nic, std::string& out) {
  const MemoryTracker::Footprint all = nic.memory().footprint();
  {
    FactWriter facts("memory", out);
    facts.Add("dev", nic.name());
    facts.Add("type", "all");
    facts.Add("count", all.count);
    facts.Add("bytes", all.bytes);
    facts.Add("bytes-most", all.bytes_most);
    AddOwner(ThisProcess(), facts);
  }
  for (const MemoryTracker::Use& use : nic.memory().Uses()) {
    FactWriter facts("memory", out);
    facts.Add("dev", nic.name());
    facts.Add("type", use.type);
    facts.Add("count", use.count);
    facts.Add("bytes", use.bytes);
    facts.Add("place", absl::StrCat(use.place.file, ":", use.place.line));
    AddOwner(ThisProcess(), facts);
    facts.BeginDetails();
    facts.Add("function", use.place.function);
    facts.Add("alignment", use.alignment);
  }
}

}  // namespace urnic::control
