#pragma once

// The items that the logs of all transports have (transport/work/inputs.h) for
// a replay: which can be believed, what they say, and whether two are the same.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ras/inputs/input_log.h"
#include "transport/work/inputs.h"
#include "transport/work/types.h"

namespace urnic::sim {

inline WorkInput KindOfItem(const InputItem& item) {
  return static_cast<WorkInput>(item.kind);
}
inline bool IsOfTransport(const InputItem& item) {
  return KindOfItem(item) >= WorkInput::kOfTransport;
}

// The values that are used as an index, a size or a state are possible.
// REQUIRES: !IsOfTransport()
bool IsValid(const InputItem& item);
// The same, of a state that a call is to reach.
bool IsTargetState(uint8_t state);

// One line each. The last one: a verdict.
std::string TextOf(const SendCompletion& done);
std::string TextOf(const RecvCompletion& done);
std::string TextOf(uint8_t verdict);

// As far as a peer or a program sees it.
bool Equal(const SendCompletion& a, const SendCompletion& b);
bool Equal(const RecvCompletion& a, const RecvCompletion& b);
inline bool Equal(uint8_t a, uint8_t b) { return a == b; }

// The first difference of two lists; empty: there is none.
template <typename T>
std::string Difference(const char* what, const std::vector<T>& logged,
                       const std::vector<T>& got) {
  const auto text = [](const std::vector<T>& list, size_t i) {
    return i < list.size() ? TextOf(list[i]) : std::string("nothing");
  };
  for (size_t i = 0; i < std::max(logged.size(), got.size()); ++i) {
    if (i < logged.size() && i < got.size() && Equal(logged[i], got[i]))
      continue;
    return absl::StrCat(what, " ", i + 1, " was \"", text(logged, i),
                        "\", and is \"", text(got, i), "\"");
  }
  return "";
}

}  // namespace urnic::sim
