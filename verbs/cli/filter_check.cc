#include "verbs/cli/filter_check.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "verbs/cli/did_you_mean.h"

namespace urnic {
namespace {

// Numbers in every kind of object that has them. Others ("type", "opcode") are
// texts in some.
bool IsNumberName(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "ahn",  "at-ns", "cm-idn", "cpu",  "cqn",  "failed-lqpn",
      "kib",  "level", "line",   "lqpn", "mrn",  "msn",
      "mwn",  "pdn",   "pid",    "rcqn", "rqpn", "scqn",
      "srqn", "users", "wr-id",  "xrcdn"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

// What is wrong with a number or a range. Empty: nothing.
std::string MistakeIn(const std::string& value) {
  const auto range = RangeIn(value);
  if (!range) return "is not a number of 64 bits or a range: 17, 0x11 or 3-7";
  return range->first > range->second ? "is a range without a number" : "";
}

}  // namespace

absl::Status CheckNumbers(const std::vector<FactFilter>& filters) {
  for (const FactFilter& filter : filters) {
    if (!IsNumberName(filter.name)) continue;
    for (const std::string& value : filter.values) {
      const std::string mistake = MistakeIn(value);
      if (mistake.empty()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(filter.name, ": \"", value, "\" ", mistake));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckValues(const std::vector<FactFilter>& filters,
                         const std::string& name,
                         const std::vector<std::string>& known) {
  for (const FactFilter& filter : filters) {
    if (filter.name != name) continue;
    for (const std::string& value : filter.values) {
      const bool is_known = std::ranges::any_of(known, [&](const auto& each) {
        return MayMatch(name, each, {{name, {value}}});
      });
      if (is_known) continue;
      const std::string advice = DidYouMean(value, known);
      return absl::InvalidArgumentError(absl::StrCat(
          "unknown ", name, " \"", value, "\"",
          advice.empty()
              ? absl::StrCat("; there is ", absl::StrJoin(known, ", "))
              : advice));
    }
  }
  return absl::OkStatus();
}

}  // namespace urnic
