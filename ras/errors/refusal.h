#pragma once

// The Status of a refused call, with its code. All refusals are made here, so
// none is without one. The code is the beginning of the message: people see it
// wherever the message goes. (A payload of the Status would be a Cord, whose
// thread-local storage cannot be linked into the plugin.)
//
// Plain functions.

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "ras/errors/error_code.h"

namespace urnic {

// A Status with the message "URN2004: TEXT" and the absl::StatusCode that
// error_codes.def gives to `code`. `text` names object, value and limit.
// REQUIRES: `code` is a refusal (2000 and more).
absl::Status Refusal(ErrorCode code, std::string_view text);

// `status`, which is not OK, with `before` in front of its text, as in
// "URN2004: qp 17: TEXT".
absl::Status Prefixed(std::string_view before, const absl::Status& status);

// None: `status` was not made by Refusal().
std::optional<ErrorCode> CodeOf(const absl::Status& status);

// The message without the code. Valid as long as `status`.
std::string_view WithoutCode(const absl::Status& status);

}  // namespace urnic
