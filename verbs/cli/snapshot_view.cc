#include "verbs/cli/snapshot_view.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "verbs/cli/image_view.h"

namespace urnic {
namespace {

absl::StatusOr<ImageView> View(const std::string& hex) {
  if (hex.size() % 2 != 0 || !std::ranges::all_of(hex, absl::ascii_isxdigit))
    return absl::InvalidArgumentError("it is not hexadecimal");
  const std::string image = absl::HexStringToBytes(hex);
  return ViewImage(
      std::span(reinterpret_cast<const uint8_t*>(image.data()), image.size()));
}

// From lines such as "send.head 12".
void AddMembers(const std::string& members, Facts& object) {
  std::map<std::string, int> times;
  for (const auto line : absl::StrSplit(members, '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> words =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    Fact fact{
        .name = words.first,
        .value = words.second,
        .is_number = std::ranges::all_of(words.second, absl::ascii_isdigit),
        .is_detail = true};
    const int time = ++times[words.first];
    if (time != 1) absl::StrAppend(&fact.name, "#", time);
    object.facts.push_back(std::move(fact));
  }
}

}  // namespace

void DecodeImages(std::vector<Facts>& objects) {
  for (Facts& object : objects) {
    const auto at = std::ranges::find(object.facts, "image", &Fact::name);
    if (at == object.facts.end()) continue;
    const auto view = View(at->value);
    if (view.ok()) {
      *at = {.name = "summary", .value = view->line};
      AddMembers(view->members, object);
    } else {
      at->is_detail = true;
      object.facts.push_back(
          {.name = "problem", .value = std::string(view.status().message())});
    }
  }
}

}  // namespace urnic
