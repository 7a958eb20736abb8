#include "verbs/control/errors.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace urnic::control {
namespace {

TEST(ErrorsTest, EachKindOfFailureHasItsErrno) {
  EXPECT_EQ(ErrnoOf(absl::OkStatus()), 0);
  EXPECT_EQ(ErrnoOf(absl::InvalidArgumentError("")), EINVAL);
  EXPECT_EQ(ErrnoOf(absl::FailedPreconditionError("")), EBUSY);
  EXPECT_EQ(ErrnoOf(absl::AlreadyExistsError("")), EBUSY);
  EXPECT_EQ(ErrnoOf(absl::ResourceExhaustedError("")), ENOMEM);
  EXPECT_EQ(ErrnoOf(absl::OutOfRangeError("")), EFAULT);
  EXPECT_EQ(ErrnoOf(absl::UnimplementedError("")), EOPNOTSUPP);
  EXPECT_EQ(ErrnoOf(absl::UnavailableError("")), ENETUNREACH);
  EXPECT_EQ(ErrnoOf(absl::DeadlineExceededError("")), ETIMEDOUT);
  EXPECT_EQ(ErrnoOf(absl::NotFoundError("")), ENODEV);
  EXPECT_EQ(ErrnoOf(absl::PermissionDeniedError("")), EACCES);
  EXPECT_EQ(ErrnoOf(absl::AbortedError("")), EIO);
  EXPECT_EQ(ErrnoOf(absl::InternalError("")), EIO);
}

}  // namespace
}  // namespace urnic::control
