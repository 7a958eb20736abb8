#include "verbs/control/errors.h"

#include <cerrno>

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
    case absl::StatusCode::kPermissionDenied:
      return EACCES;
    default:
      return EIO;
  }
}

}  // namespace urnic::control
