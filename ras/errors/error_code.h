#pragma once

// Stable codes of what can go wrong: URN2004 is the same in every version.
// `urnic explain` prints their texts, docs/operate/errors.md lists them.
//
// Plain values.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace urnic {

enum class ErrorCode : uint16_t {
#define URNIC_FAILURE(enumerator, number, severity, text, cause, action) \
  enumerator = number,
#define URNIC_REFUSAL(enumerator, number, severity, status, text, cause, \
                      action)                                            \
  enumerator = number,
#include "ras/errors/error_codes.def"
#undef URNIC_FAILURE
#undef URNIC_REFUSAL
};

// Of syslog(3), whose numbers these are.
enum class Severity : uint8_t {
  kError = 3,
  kWarning = 4,
  kInfo = 6,
};
// "error", "warning" or "info".
const char* NameOf(Severity severity);

struct ErrorWords {
  ErrorCode code;
  Severity severity;
  std::string_view text;
  std::string_view cause;
  std::string_view action;
};

// By number.
std::span<const ErrorWords> AllErrors();
const ErrorWords& WordsOf(ErrorCode code);

// "URN2004".
std::string ErrorName(ErrorCode code);
// Reads "URN2004", "urn2004" or "2004". None: there is no such code.
std::optional<ErrorCode> ParseErrorCode(std::string_view text);

}  // namespace urnic
