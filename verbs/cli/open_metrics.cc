#include "verbs/cli/open_metrics.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ras/errors/error_code.h"
#include "ras/facts/value_of.h"
#include "ras/metrics/counters.h"

namespace urnic {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

struct Family {
  const char* type = "gauge";
  const char* suffix = "";  // of the samples' names
  std::string help;
  std::vector<std::string> samples;  // labels and value
};

// By name. A family's samples must follow each other.
using Families = std::map<std::string, Family>;

// The escaping of OpenMetrics: backslash, line feed and double quote.
std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

// "urnic0" of the link "urnic0/1", or of the device.
std::string DeviceOf(const Facts& object) {
  const std::string link = ValueOf(object, "link");
  return link.empty() ? ValueOf(object, "dev") : link.substr(0, link.find('/'));
}

Labels OwnerLabels(const Facts& object) {
  return {{"device", DeviceOf(object)},
          {"pid", ValueOf(object, "pid")},
          {"comm", ValueOf(object, "comm")}};
}

Labels With(Labels labels, std::string name, std::string value) {
  labels.emplace_back(std::move(name), std::move(value));
  return labels;
}

std::string SampleText(const Labels& labels, std::string_view value) {
  std::string text = "{";
  for (const auto& [name, label] : labels) {
    absl::StrAppend(&text, text.size() == 1 ? "" : ",", name, "=\"",
                    Escaped(label), "\"");
  }
  return absl::StrCat(text, "} ", std::string(value));
}

std::string MetricName(std::string_view list, std::string name) {
  std::ranges::replace(name, '-', '_');
  return absl::StrCat("urnic_", std::string(list), "_", name);
}

// The texts of all counters, by metric.
const std::map<std::string, std::string>& CounterTexts() {
  static const auto* const texts = [] {
    auto* all = new std::map<std::string, std::string>;
    const auto add = [all](const char* list, const auto& counters) {
      ForEachCounter(counters,
                     [&](const char* name, uint64_t, const char* text) {
                       (*all)[MetricName(list, name)] = text;
                     });
    };
    add("port", PortCounters());
    add("engine", EngineCounters());
    add("requester", RequesterCounters());
    add("qp", RequesterCounters());
    add("roce", RoceCounters());
    add("iwarp", IwarpCounters());
    return all;
  }();
  return *texts;
}

void AddCounter(const std::string& name, const std::string& help,
                const Labels& labels, const std::string& value,
                Families& families) {
  Family& family = families[name];
  family.type = "counter";
  family.suffix = "_total";
  family.help = help;
  family.samples.push_back(SampleText(labels, value));
}

void AddGauge(const std::string& name, const std::string& help,
              const Labels& labels, const std::string& value,
              Families& families) {
  Family& family = families[name];
  family.help = help;
  family.samples.push_back(SampleText(labels, value));
}

// A histogram, from counts that are not cumulative: "lt-2us" and so on, in
// order, and "longer". Details (zeros) come behind the others.
void AddRoundTrips(const Facts& stat, const Labels& owner, Families& families) {
  constexpr std::string_view kUnit = "us";
  std::map<uint64_t, uint64_t> by_limit;  // in microseconds
  uint64_t longer = 0;
  for (const Fact& fact : stat.facts) {
    uint64_t value = 0;
    if (!fact.is_number || !absl::SimpleAtoi(fact.value, &value)) continue;
    uint64_t limit = 0;
    if (fact.name == "longer") longer = value;
    if (fact.name.starts_with("lt-") && fact.name.ends_with(kUnit) &&
        absl::SimpleAtoi(
            fact.name.substr(3, fact.name.size() - 3 - kUnit.size()), &limit)) {
      by_limit[limit] = value;
    }
  }
  Family& family = families["urnic_round_trips_seconds"];
  family.type = "histogram";
  family.suffix = "_bucket";
  family.help = "round trips that were measured";
  uint64_t sum = 0;
  for (const auto& [limit, count] : by_limit) {
    sum += count;
    // Exactly: the decimals of microseconds.
    std::string seconds = absl::StrCat(limit % 1'000'000);
    seconds.insert(0, 6 - seconds.size(), '0');
    family.samples.push_back(SampleText(
        With(owner, "le", absl::StrCat(limit / 1'000'000, ".", seconds)),
        absl::StrCat(sum)));
  }
  family.samples.push_back(
      SampleText(With(owner, "le", "+Inf"), absl::StrCat(sum + longer)));
}

bool IsOwner(const std::string& name) { return name == "pid"; }

// "bad-icrc": "BadIcrc", as everywhere else.
std::string VerdictName(std::string_view fact) {
  std::string name;
  bool begins = true;
  for (const char c : fact) {
    if (c == '-') {
      begins = true;
      continue;
    }
    name += begins
                ? static_cast<char>(std::toupper(static_cast<unsigned char>(c)))
                : c;
    begins = false;
  }
  return name;
}

void AddStat(const Facts& stat, Families& families) {
  const std::string list = ValueOf(stat, "list");
  const Labels owner = OwnerLabels(stat);
  if (list == "round-trips") return AddRoundTrips(stat, owner, families);
  for (const Fact& fact : stat.facts) {
    if (!fact.is_number || IsOwner(fact.name)) continue;
    if (list == "verdict") {
      AddCounter("urnic_verdict_packets", "received packets by their fate",
                 With(With(owner, "layer", ValueOf(stat, "layer")), "verdict",
                      VerdictName(fact.name)),
                 fact.value, families);
    } else if (list == "error") {
      const auto code = ParseErrorCode(fact.name);
      if (!code) continue;  // of a newer program
      AddCounter("urnic_errors", "errors by code: urnic explain",
                 With(With(owner, "code", ErrorName(*code)), "severity",
                      NameOf(WordsOf(*code).severity)),
                 fact.value, families);
    } else {
      const std::string name = MetricName(list, fact.name);
      const auto text = CounterTexts().find(name);
      AddCounter(name, text == CounterTexts().end() ? "" : text->second, owner,
                 fact.value, families);
    }
  }
}

void AddDevice(const Facts& device, Families& families) {
  static constexpr std::array kKinds = {"pds", "mrs",  "mws", "cqs",
                                        "qps", "srqs", "ahs"};
  for (const std::string kind : kKinds) {
    const std::string count = ValueOf(device, kind);
    if (count.empty()) continue;
    AddGauge("urnic_objects", "objects that exist",
             With(OwnerLabels(device), "kind", kind.substr(0, kind.size() - 1)),
             count, families);
  }
}

void AddQp(const Facts& qp, Families& families) {
  static constexpr std::array<std::pair<const char*, const char*>, 8> kGauges =
      {{{"unacked-requests", "work requests that are not acknowledged"},
        {"unacked-packets", "packets that are not acknowledged"},
        {"unacked-bytes", "bytes that are not acknowledged"},
        {"path-window", "packets that may be under way on the path"},
        {"path-under-way", "packets under way on the path"},
        {"path-waiting", "queue pairs that wait for the path"},
        {"cwnd", "congestion window of TCP in segments"},
        {"rtt-ns", "smoothed round trip in nanoseconds"}}};
  // Beside those of requesters.
  static constexpr std::array<std::pair<const char*, const char*>, 3>
      kCounters = {
          {{"packets-received", "packets that the queue pair was given"},
           {"packets-sent", "packets of UC and UD"},
           {"bytes-sent", "bytes of messages of UC and UD"}}};
  Labels labels = OwnerLabels(qp);
  for (const char* const name : {"lqpn", "type", "dst-addr", "rqpn"}) {
    const std::string value = ValueOf(qp, name);
    if (value.empty()) continue;
    std::string label = name;
    std::ranges::replace(label, '-', '_');
    labels.emplace_back(std::move(label), value);
  }
  ForEachCounter(RequesterCounters(),
                 [&](std::string name, uint64_t, const char* text) {
                   const std::string metric = MetricName("qp", name);
                   std::ranges::replace(name, '_', '-');
                   const std::string value = ValueOf(qp, name);
                   if (!value.empty())
                     AddCounter(metric, text, labels, value, families);
                 });
  for (const auto& [name, help] : kCounters) {
    const std::string value = ValueOf(qp, name);
    if (!value.empty())
      AddCounter(MetricName("qp", name), help, labels, value, families);
  }
  for (const auto& [name, help] : kGauges) {
    const std::string value = ValueOf(qp, name);
    if (!value.empty())
      AddGauge(MetricName("qp", name), help, labels, value, families);
  }
}

}  // namespace

std::string OpenMetricsText(const MetricSources& sources) {
  Families families;
  for (const Facts& device : sources.devices) AddDevice(device, families);
  for (const Facts& link : sources.links) {
    AddGauge("urnic_link_up", "1: the link is active", OwnerLabels(link),
             ValueOf(link, "state") == "ACTIVE" ? "1" : "0", families);
  }
  for (const Facts& stat : sources.stats) AddStat(stat, families);
  for (const Facts& qp : sources.qps) AddQp(qp, families);
  std::string text;
  for (const auto& [name, family] : families) {
    absl::StrAppend(&text, "# TYPE ", name, " ", family.type, "\n");
    if (!family.help.empty())
      absl::StrAppend(&text, "# HELP ", name, " ", Escaped(family.help), "\n");
    for (const std::string& sample : family.samples) {
      absl::StrAppend(&text, name, family.suffix, sample, "\n");
    }
  }
  return text + "# EOF\n";
}

}  // namespace urnic
