#include "verbs/cli/fact_list.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "verbs/cli/format_text.h"

namespace urnic {
namespace {

std::optional<uint64_t> NumberIn(const std::string& text) {
  uint64_t number;
  const bool is_hex = text.starts_with("0x");
  if (!(is_hex ? absl::SimpleHexAtoi(text, &number)
               : absl::SimpleAtoi(text, &number))) {
    return std::nullopt;
  }
  return number;
}

bool IsValue(const std::string& known, const std::string& wanted) {
  if (known == wanted) return true;
  const auto number = NumberIn(known);
  const auto range = RangeIn(wanted);
  return number && range && *number >= range->first && *number <= range->second;
}

bool Matches(const std::string& known, const FactFilter& filter) {
  return std::ranges::any_of(filter.values, [&](const std::string& wanted) {
    return IsValue(known, wanted);
  });
}

std::string Joined(const Facts& object, bool details) {
  std::string line;
  for (const Fact& fact : object.facts) {
    if (fact.is_detail != details) continue;
    // It may be another user's, and the terminal obeys what is not printable.
    absl::StrAppend(&line, line.empty() ? "" : " ", fact.name, " ",
                    Printable(fact.value));
  }
  return line;
}

}  // namespace

std::optional<std::pair<uint64_t, uint64_t>> RangeIn(const std::string& text) {
  const size_t dash = text.find('-');
  const auto first = NumberIn(text.substr(0, dash));
  const auto last =
      dash == std::string::npos ? first : NumberIn(text.substr(dash + 1));
  if (!first || !last) return std::nullopt;
  return std::pair(*first, *last);
}

absl::StatusOr<std::vector<FactFilter>> ParseFilters(
    const std::vector<std::string>& words) {
  std::vector<FactFilter> filters;
  for (size_t i = 0; i < words.size(); i += 2) {
    if (i + 1 == words.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", words[i], "\" has no value; filters are pairs: lqpn 17"));
    }
    FactFilter filter{words[i], absl::StrSplit(words[i + 1], ',')};
    if (std::ranges::count(filter.values, "") != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(words[i], " \"", words[i + 1], "\" has an empty value"));
    }
    filters.push_back(std::move(filter));
  }
  return filters;
}

bool Matches(const Facts& object, const std::vector<FactFilter>& filters) {
  return std::ranges::all_of(filters, [&](const FactFilter& filter) {
    const std::string* known = object.Find(filter.name);
    return known != nullptr && Matches(*known, filter);
  });
}

bool MayMatch(std::string_view name, const std::string& value,
              const std::vector<FactFilter>& filters) {
  return std::ranges::all_of(filters, [&](const FactFilter& filter) {
    return filter.name != name || Matches(value, filter);
  });
}

absl::StatusOr<std::vector<Facts>> ParseFactList(const std::string& answer) {
  std::vector<Facts> objects;
  for (const auto line : absl::StrSplit(answer, '\n', absl::SkipEmpty())) {
    auto object = ParseFacts({line.data(), line.size()});
    if (!object) {
      return absl::FailedPreconditionError(
          absl::StrCat("\"", line.substr(0, 80), "\" is not a line of facts"));
    }
    objects.push_back(*std::move(object));
  }
  return objects;
}

absl::Status CheckNames(const std::vector<Facts>& objects,
                        const std::vector<FactFilter>& filters) {
  if (objects.empty()) return absl::OkStatus();
  std::vector<std::string> known;
  for (const Facts& object : objects) {
    for (const Fact& fact : object.facts) {
      if (std::ranges::count(known, fact.name) == 0) known.push_back(fact.name);
    }
  }
  for (const FactFilter& filter : filters) {
    if (std::ranges::count(known, filter.name) != 0) continue;
    return absl::NotFoundError(
        absl::StrCat("no ", objects.front().kind, " has \"", filter.name,
                     "\"; they have ", absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

std::string FactLine(const Facts& object, bool details) {
  std::string line = Joined(object, false);
  if (!details) return line;
  const std::string more = Joined(object, true);
  return more.empty() ? line : absl::StrCat(line, "\n    ", more);
}

}  // namespace urnic
