// Asynchronous events that a program reads late, or not at all.

#include "verbs/provider/async_events.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace urnic::provider {
namespace {

// More than any pipe of an ordinary user takes.
constexpr uint64_t kMany = 100'000;

// The bytes that this process has read from files and pipes.
uint64_t BytesRead() {
  std::ifstream io("/proc/self/io");
  std::string name;
  uint64_t value = 0;
  while (io >> name >> value)
    if (name == "rchar:") return value;
  return 0;
}

class AsyncEventsTest : public testing::Test {
 protected:
  AsyncEventsTest() : events_(std::make_unique<AsyncEvents>()) {
    EXPECT_EQ(events_->Open(), 0);
    fd_ = events_->read_fd();
  }
  ~AsyncEventsTest() override {
    events_.reset();
    close(fd_);
  }

  bool Readable(int timeout_ms) const {
    pollfd p = {fd_, POLLIN, 0};
    return poll(&p, 1, timeout_ms) == 1;
  }
  // As ibv_get_async_event() does. Element and type.
  std::pair<uint64_t, uint32_t> Get() const {
    ib_uverbs_async_event_desc event = {};
    EXPECT_EQ(read(fd_, &event, sizeof(event)), ssize_t{sizeof(event)});
    return {event.element, event.event_type};
  }
  static std::pair<uint64_t, uint32_t> Fatal(uint64_t element) {
    return {element, IBV_EVENT_QP_FATAL};
  }
  void PushFatal(uint64_t first, uint64_t last) {
    for (uint64_t i = first; i <= last; ++i)
      ASSERT_TRUE(events_->Push(i, IBV_EVENT_QP_FATAL)) << i;
  }

  std::unique_ptr<AsyncEvents> events_;
  int fd_ = -1;
};

TEST_F(AsyncEventsTest, NoEventIsLostHoweverManyAreUnread) {
  PushFatal(1, kMany);
  for (uint64_t i = 1; i <= kMany; ++i) {
    ASSERT_TRUE(Readable(30'000)) << i;
    ASSERT_EQ(Get(), Fatal(i));
  }
  EXPECT_FALSE(Readable(0));
}

TEST_F(AsyncEventsTest, AThreadThatSleepsInReadGetsThemAll) {
  std::thread reader([&] {
    for (uint64_t i = 1; i <= kMany; ++i) ASSERT_EQ(Get(), Fatal(i));
  });
  PushFatal(1, kMany);
  reader.join();
}

TEST_F(AsyncEventsTest, AProgramThatNeverSleepsInReadGetsThemAll) {
  ASSERT_EQ(fcntl(fd_, F_SETFL, O_NONBLOCK), 0);
  PushFatal(1, kMany);
  for (uint64_t i = 1; i <= kMany; ++i) {
    ASSERT_TRUE(Readable(30'000)) << i;
    ASSERT_EQ(Get(), Fatal(i));
  }
}

TEST_F(AsyncEventsTest, WhatADropReadsDoesNotGrowWithTheEventsOfOthers) {
  constexpr uint64_t kElements = 20'000;
  constexpr uint64_t kBytesPerDrop = 16'384;
  PushFatal(1, kElements);
  const uint64_t before = BytesRead();
  // From both ends: what was pushed first, and last.
  for (uint64_t i = 1; i <= kElements / 2; ++i) {
    ASSERT_EQ(events_->Drop(i), 1u);
    ASSERT_EQ(events_->Drop(kElements + 1 - i), 1u);
  }
  EXPECT_LE(BytesRead() - before, kElements * kBytesPerDrop);
  EXPECT_FALSE(Readable(0));
}

TEST_F(AsyncEventsTest, ADropLeavesTheOthersInOrder) {
  // Every third event is about element 7; of those that wait, one stays.
  constexpr uint64_t kOthers = 2'000;
  uint32_t of_seven = 0;
  for (uint64_t i = 0; i < kOthers; ++i) {
    ASSERT_TRUE(events_->Push(100 + i, IBV_EVENT_QP_FATAL));
    if (i % 2 == 0) of_seven += events_->Push(7, IBV_EVENT_SQ_DRAINED);
  }
  EXPECT_GE(of_seven, 1u);
  EXPECT_EQ(events_->Drop(7), of_seven);
  EXPECT_EQ(events_->Drop(7), 0u);
  for (uint64_t i = 0; i < kOthers; ++i) {
    ASSERT_TRUE(Readable(30'000)) << i;
    ASSERT_EQ(Get(), Fatal(100 + i));
  }
  EXPECT_FALSE(Readable(0));
}

TEST_F(AsyncEventsTest, OfEqualEventsThatWaitTheLastOneStays) {
  PushFatal(1, kMany);
  EXPECT_TRUE(events_->Push(0, IBV_EVENT_PORT_ERR));
  EXPECT_TRUE(events_->Push(0, IBV_EVENT_PORT_ACTIVE));
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(events_->Push(0, IBV_EVENT_PORT_ERR));
    EXPECT_FALSE(events_->Push(0, IBV_EVENT_PORT_ACTIVE));
  }
  EXPECT_FALSE(events_->Push(0, IBV_EVENT_PORT_ERR));
  for (uint64_t i = 1; i <= kMany; ++i) ASSERT_EQ(Get(), Fatal(i));
  EXPECT_EQ(Get(), std::pair(uint64_t{0}, uint32_t{IBV_EVENT_PORT_ACTIVE}));
  EXPECT_EQ(Get(), std::pair(uint64_t{0}, uint32_t{IBV_EVENT_PORT_ERR}));
  EXPECT_FALSE(Readable(0));
}

TEST_F(AsyncEventsTest, TheyEndWithUnreadEvents) {
  PushFatal(1, kMany);
  events_.reset();
  EXPECT_TRUE(Readable(0)) << "what is in the pipe stays with its reader";
}

}  // namespace
}  // namespace urnic::provider
