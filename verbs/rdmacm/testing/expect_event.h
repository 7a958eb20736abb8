#pragma once

// An expectation of tests about the events of a Host.

#include <gtest/gtest.h>

#include "verbs/rdmacm/testing/host.h"

namespace urnic::rdmacm {

// The host's next event has this type and status. Returns it; if there is none,
// an empty one.
inline rdma_ucm_event_resp Expect(Host& host, EventType type, int status = 0) {
  const auto event = host.Next();
  EXPECT_TRUE(event.has_value());
  if (!event.has_value()) return {};
  EXPECT_EQ(static_cast<EventType>(event->event), type);
  EXPECT_EQ(static_cast<int>(event->status), status);
  return *event;
}

}  // namespace urnic::rdmacm
