#include "verbs/control/errors.h"

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "ras/errors/refusal.h"

namespace urnic::control {

int ErrnoOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
      return EINVAL;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAlreadyExists:
      return EBUSY;
    case absl::StatusCode::kResourceExhausted:
      return ENOMEM;
    case absl::StatusCode::kOutOfRange:
      return EFAULT;
    case absl::StatusCode::kUnimplemented:
      return EOPNOTSUPP;
    case absl::StatusCode::kUnavailable:
      return ENETUNREACH;
    case absl::StatusCode::kDeadlineExceeded:
      return ETIMEDOUT;
    case absl::StatusCode::kNotFound:
      return ENODEV;
    case absl::StatusCode::kCancelled:
      return EDEADLK;
    case absl::StatusCode::kPermissionDenied:
      return EACCES;
    default:
      return EIO;
  }
}

absl::Status CheckRange(const char* name, uint64_t value, uint64_t min,
                        uint64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return Refusal(
      ErrorCode::kBadAttribute,
      absl::StrCat(name, " ", value, " is out of range: ", min, " to ", max));
}

}  // namespace urnic::control
