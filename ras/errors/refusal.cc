#include "ras/errors/refusal.h"

#include <cstddef>
#include <string>

namespace urnic {
namespace {

constexpr std::string_view kColon = ": ";

absl::StatusCode StatusOf(ErrorCode code) {
  switch (code) {
#define URNIC_FAILURE(enumerator, number, severity, text, cause, action)
#define URNIC_REFUSAL(enumerator, number, severity, status, text, cause, \
                      action)                                            \
  case ErrorCode::enumerator:                                            \
    return absl::StatusCode::status;
#include "ras/errors/error_codes.def"
#undef URNIC_FAILURE
#undef URNIC_REFUSAL
    default:
      return absl::StatusCode::kInternal;
  }
}

// The length of "URN2004: " at the beginning; 0: there is none.
size_t CodeLength(std::string_view message) {
  const size_t colon = message.find(kColon);
  if (!message.starts_with("URN") || colon == std::string_view::npos ||
      !ParseErrorCode(message.substr(0, colon))) {
    return 0;
  }
  return colon + kColon.size();
}

std::string_view MessageOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

}  // namespace

absl::Status Refusal(ErrorCode code, std::string_view text) {
  return absl::Status(StatusOf(code),
                      ErrorName(code).append(kColon).append(text));
}

absl::Status Prefixed(std::string_view before, const absl::Status& status) {
  std::string message(MessageOf(status));
  message.insert(CodeLength(message), before);
  return absl::Status(status.code(), message);
}

std::optional<ErrorCode> CodeOf(const absl::Status& status) {
  const std::string_view message = MessageOf(status);
  const size_t length = CodeLength(message);
  if (length == 0) return std::nullopt;
  return ParseErrorCode(message.substr(0, length - kColon.size()));
}

std::string_view WithoutCode(const absl::Status& status) {
  const std::string_view message = MessageOf(status);
  return message.substr(CodeLength(message));
}

}  // namespace urnic
