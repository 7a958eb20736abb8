#include "ras/errors/error_code.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <iterator>

namespace urnic {
namespace {

constexpr ErrorWords kErrors[] = {
#define URNIC_FAILURE(enumerator, number, severity, text, cause, action) \
  {ErrorCode::enumerator, Severity::severity, text, cause, action},
#define URNIC_REFUSAL(enumerator, number, severity, status, text, cause, \
                      action)                                            \
  {ErrorCode::enumerator, Severity::severity, text, cause, action},
#include "ras/errors/error_codes.def"
#undef URNIC_FAILURE
#undef URNIC_REFUSAL
};
// WordsOf() searches by number.
static_assert(std::ranges::adjacent_find(kErrors, std::ranges::greater_equal{},
                                         &ErrorWords::code) ==
              std::end(kErrors));

constexpr std::string_view kPrefix = "URN";

const ErrorWords* Find(uint64_t number) {
  const auto at = std::ranges::lower_bound(
      kErrors, number, {},
      [](const ErrorWords& e) { return static_cast<uint64_t>(e.code); });
  if (at == std::end(kErrors) || static_cast<uint64_t>(at->code) != number) {
    return nullptr;
  }
  return at;
}

}  // namespace

const char* NameOf(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    default:
      return "info";
  }
}

std::span<const ErrorWords> AllErrors() { return kErrors; }

const ErrorWords& WordsOf(ErrorCode code) {
  return *Find(static_cast<uint64_t>(code));
}

std::string ErrorName(ErrorCode code) {
  return std::string(kPrefix) + std::to_string(static_cast<uint16_t>(code));
}

std::optional<ErrorCode> ParseErrorCode(std::string_view text) {
  const auto same = [](char a, char b) { return (a & ~0x20) == b; };
  if (text.size() > kPrefix.size() &&
      std::ranges::equal(text.substr(0, kPrefix.size()), kPrefix, same)) {
    text.remove_prefix(kPrefix.size());
  }
  uint32_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  const ErrorWords* words = Find(number);
  if (words == nullptr) return std::nullopt;
  return words->code;
}

}  // namespace urnic
