#include "verbs/cli/top_view.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ras/facts/value_of.h"
#include "verbs/cli/format_text.h"

namespace urnic {
namespace {

std::optional<uint64_t> NumberOf(const Facts& object, std::string_view name) {
  uint64_t number;
  if (!absl::SimpleAtoi(ValueOf(object, name), &number)) return std::nullopt;
  return number;
}

// Null: it is new.
const Facts* FindSame(const std::vector<Facts>& objects, const Facts& object,
                      std::string_view id) {
  const auto at = std::ranges::find_if(objects, [&](const Facts& other) {
    for (const std::string_view name :
         {std::string_view("pid"), std::string_view("link"), id}) {
      if (ValueOf(other, name) != ValueOf(object, name)) return false;
    }
    return true;
  });
  return at == objects.end() ? nullptr : &*at;
}

// Per second. None: one of the looks does not have it, or it was reset.
std::optional<double> RateOf(const Facts* before, const Facts& now,
                             std::string_view name, double seconds) {
  if (before == nullptr || seconds <= 0) return std::nullopt;
  const auto first = NumberOf(*before, name);
  const auto second = NumberOf(now, name);
  if (!first || !second || *second < *first) return std::nullopt;
  return static_cast<double>(*second - *first) / seconds;
}

// Bytes per second as Gb/s.
std::string Gbits(std::optional<double> rate) {
  return rate ? FormatText("%.2f", *rate * 8 / 1e9) : "-";
}

std::string Count(std::optional<double> rate) {
  if (!rate) return "-";
  if (*rate >= 1e6) return FormatText("%.2fM", *rate / 1e6);
  if (*rate >= 1e4) return FormatText("%.1fk", *rate / 1e3);
  return FormatText("%.0f", *rate);
}

std::string PortLine(const Facts* before, const Facts& now, double seconds) {
  const auto rate = [&](std::string_view name) {
    return RateOf(before, now, name, seconds);
  };
  std::optional<double> lost;
  for (const std::string_view name : {"rx-missed", "rx-no-mbuf", "rx-truncated",
                                      "tx-dropped-down", "tx-errors"}) {
    if (const auto one = rate(name)) lost = lost.value_or(0) + *one;
  }
  return FormatText(
      "%-12s %8s %-15s %8s %8s %8s %8s %8s\n", ValueOf(now, "link").c_str(),
      ValueOf(now, "pid").c_str(), ValueOf(now, "comm").c_str(),
      Gbits(rate("rx-bytes")).c_str(), Count(rate("rx-packets")).c_str(),
      Gbits(rate("tx-bytes")).c_str(), Count(rate("tx-packets")).c_str(),
      Count(lost).c_str());
}

struct QpLine {
  double bytes = 0;
  std::string text;
};

QpLine LineOf(const Facts* before, const Facts& qp, double seconds) {
  const auto rate = [&](std::string_view name) {
    return RateOf(before, qp, name, seconds);
  };
  const auto rtt_ns = NumberOf(qp, "rtt-ns");
  const std::string rtt =
      rtt_ns ? FormatText("%.1f", static_cast<double>(*rtt_ns) / 1e3) : "-";
  const auto unacked = NumberOf(qp, "unacked-requests");
  const std::string peer = ValueOf(qp, "dst-addr");
  // UC and UD know what they have sent, and RC what has arrived as well.
  const auto either = [&](std::string_view first, std::string_view second) {
    const auto known = rate(first);
    return known ? known : rate(second);
  };
  const auto bytes = either("bytes-acked", "bytes-sent");
  const auto packets = either("requests-sent", "packets-sent");
  return {.bytes = bytes.value_or(0),
          .text = FormatText(
              "%-12s %8s %8s %-7s %-5s %8s %8s %8s %8s %8s %s\n",
              ValueOf(qp, "link").c_str(), ValueOf(qp, "pid").c_str(),
              ValueOf(qp, "lqpn").c_str(), ValueOf(qp, "type").c_str(),
              ValueOf(qp, "state").c_str(), Gbits(bytes).c_str(),
              Count(packets).c_str(), Count(rate("requests-resent")).c_str(),
              unacked ? absl::StrCat(*unacked).c_str() : "-", rtt.c_str(),
              peer.empty() ? "-" : peer.c_str())};
}

// The whole lines of the first `lines`.
std::string FirstLines(const std::string& text, size_t lines) {
  if (lines == 0) return text;
  size_t end = 0;
  while (lines-- != 0) {
    const size_t next = text.find('\n', end);
    if (next == std::string::npos) return text;
    end = next + 1;
  }
  return text.substr(0, end);
}

}  // namespace

std::string TopText(const TopLook& before, const TopLook& now, size_t lines) {
  const double seconds =
      std::chrono::duration<double>(now.at - before.at).count();
  std::string text = FormatText("%-12s %8s %-15s %8s %8s %8s %8s %8s\n", "PORT",
                                "PID", "PROGRAM", "RX-Gb/s", "RX-pkt/s",
                                "TX-Gb/s", "TX-pkt/s", "LOST/s");
  for (const Facts& stat : now.stats) {
    if (ValueOf(stat, "list") != "port") continue;
    text += PortLine(FindSame(before.stats, stat, "list"), stat, seconds);
  }
  absl::StrAppend(
      &text, "\n",
      FormatText("%-12s %8s %8s %-7s %-5s %8s %8s %8s %8s %8s %s\n", "LINK",
                 "PID", "LQPN", "TYPE", "STATE", "SENT-Gb/s", "PKT/s",
                 "RESENT/s", "UNACKED", "RTT-us", "PEER"));
  std::vector<QpLine> qps;
  for (const Facts& qp : now.qps)
    qps.push_back(LineOf(FindSame(before.qps, qp, "lqpn"), qp, seconds));
  std::ranges::stable_sort(qps, std::ranges::greater(), &QpLine::bytes);
  for (const QpLine& line : qps) text += line.text;
  // A program may be another user's, and the terminal obeys what is not
  // printable.
  return FirstLines(PrintableLines(text), lines);
}

}  // namespace urnic
