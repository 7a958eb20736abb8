#include "ras/facts/facts_json.h"

#include <charconv>
#include <cstdint>

namespace urnic {
namespace {

template <typename T>
bool IsAll(const std::string& text, T& number) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end;
}

nlohmann::ordered_json JsonOf(const Fact& fact) {
  int64_t number;
  uint64_t large;
  if (fact.is_number && IsAll(fact.value, number)) return number;
  if (fact.is_number && IsAll(fact.value, large)) return large;
  return fact.value;
}

}  // namespace

nlohmann::ordered_json JsonOf(const Facts& facts, bool details) {
  auto object = nlohmann::ordered_json::object();
  for (const Fact& fact : facts.facts) {
    if (details || !fact.is_detail) object[fact.name] = JsonOf(fact);
  }
  return object;
}

std::string JsonText(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace urnic
