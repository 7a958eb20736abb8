#include "ras/facts/facts_json.h"

#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace urnic {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
bool IsAll(const std::string& text, T& number) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end;
}

Json ValueOf(const Fact& fact) {
  int64_t number = 0;
  uint64_t large = 0;
  if (fact.is_number && IsAll(fact.value, number)) return number;
  if (fact.is_number && IsAll(fact.value, large)) return large;
  return fact.value;
}

Json ObjectOf(const Facts& facts, bool details) {
  auto object = Json::object();
  for (const Fact& fact : facts.facts) {
    if (details || !fact.is_detail) object[fact.name] = ValueOf(fact);
  }
  return object;
}

// Negative `indent`: in one line.
std::string TextOf(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string JsonOf(const Facts& facts, bool details) {
  return TextOf(ObjectOf(facts, details), -1);
}

std::string JsonOf(const std::vector<Facts>& list, bool details, bool pretty) {
  auto array = Json::array();
  for (const Facts& facts : list) array.push_back(ObjectOf(facts, details));
  return TextOf(array, pretty ? 4 : -1);
}

}  // namespace urnic
