#pragma once

// How control code reports errors to a program.
//
// A failure is an absl::Status whose message names object, value and limit
// ("qp 17: timeout 32 is out of range: 0 to 31"). The verbs interface only has
// room for an errno: ErrnoOf() derives it from the code, and the message goes
// to the debug log (debug_log.h).

#include <cstdint>

#include "absl/status/status.h"

namespace urnic::control {

// One code, one errno:
//
// clang-format off
//   kInvalidArgument     EINVAL       an attribute, or the state for it
//   kFailedPrecondition  EBUSY        the object is in use
//   kAlreadyExists       EBUSY        another process has the port
//   kResourceExhausted   ENOMEM       memory or a table is full
//   kOutOfRange          EFAULT       memory is not mapped, or not writable
//   kUnimplemented       EOPNOTSUPP   not built
//   kUnavailable         ENETUNREACH  no route to the destination
//   kDeadlineExceeded    ETIMEDOUT    the destination does not answer
//   kNotFound            ENODEV       no such device or interface
//   kPermissionDenied    EACCES
//   kCancelled           EDEADLK      a verb inside a verb
//   anything else        EIO          also after fork(), in the child
// clang-format on
int ErrnoOf(const absl::Status& status);

// INVALID_ARGUMENT: `value` is less than `min` or greater than `max`. `name`
// begins the message.
absl::Status CheckRange(const char* name, uint64_t value, uint64_t min,
                        uint64_t max);

}  // namespace urnic::control
