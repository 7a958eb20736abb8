#include "transport/cc/notification_point.h"

#include <gtest/gtest.h>

namespace urnic::cc {
namespace {

TEST(NotificationPointTest, MarksAreNotifiedOncePerInterval) {
  NotificationPoint point;
  Time now = Time::FromNs(1000000);
  EXPECT_FALSE(point.due);
  point.OnMarked(now);
  EXPECT_TRUE(point.due);
  point.due = false;
  now = now + NotificationPoint::kInterval - Duration::Nanoseconds(1);
  point.OnMarked(now);
  EXPECT_FALSE(point.due);
  now = now + Duration::Nanoseconds(1);
  point.OnMarked(now);
  EXPECT_TRUE(point.due);
}

}  // namespace
}  // namespace urnic::cc
