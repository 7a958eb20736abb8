// A program ends what a context is doing (document C: "a cancel operation").

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/rud_pair.h"

namespace urnic::testing {
namespace {

class CancelTest : public RudPair {
 protected:
  static constexpr uint32_t kBytes = 3 * kRudStride;

  static uint32_t Cancel(RudEnd& end, rud::ContextId context, uint64_t tid) {
    urnic_rud_send command = {};
    command.opcode = URNIC_RUD_CANCEL;
    command.local_context = context.value();
    command.tid = tid;
    const uint32_t index = end.Post(command);
    EXPECT_TRUE(end.Transmit().empty());
    return end.StatusOf(index);
  }
};

TEST_F(CancelTest, TheCompletionOfACancelledWriteIsStale) {
  for (const Bytes& packet : Send(Command(URNIC_RUD_WRITE, Tid(1), kBytes)))
    EXPECT_EQ(Give(packet), RxVerdict::kAccept);
  EXPECT_EQ(Cancel(a_, a_context_, Tid(2)), URNIC_RUD_SENT);
  for (const Bytes& packet : SendFrom(b_, a_))
    EXPECT_EQ(a_.Receive(packet, b_.config().address), RxVerdict::kRudStale);
  EXPECT_FALSE(a_.Poll().has_value());
  EXPECT_FALSE(Send(Command(URNIC_RUD_WRITE, Tid(3), kBytes)).empty());
}

TEST_F(CancelTest, NothingOfACancelledReadIsPlaced) {
  for (const Bytes& request : Send(Command(URNIC_RUD_READ, Tid(1), kBytes)))
    EXPECT_EQ(Give(request), RxVerdict::kAccept);
  const std::vector<Bytes> packets = SendFrom(b_, a_);
  ASSERT_EQ(packets.size(), 3u);
  EXPECT_EQ(a_.Receive(packets[0], b_.config().address), RxVerdict::kAccept);
  EXPECT_EQ(Cancel(a_, a_context_, Tid(1, 1)), URNIC_RUD_SENT);
  const Bytes before = a_bytes_;
  EXPECT_EQ(a_.Receive(packets[1], b_.config().address), RxVerdict::kRudStale);
  EXPECT_EQ(a_bytes_, before);
  // The same transfer may be tried again. Then all of it is sent.
  for (const Bytes& request : Send(Command(URNIC_RUD_READ, Tid(1, 2), kBytes)))
    EXPECT_EQ(Give(request), RxVerdict::kAccept);
  EXPECT_EQ(SendFrom(b_, a_).size(), 3u);
}

// The owner of a context that answers a read may need the memory, or the
// context.
TEST_F(CancelTest, ThePacketsOfAReadThatIsAnsweredAreNotSent) {
  for (const Bytes& request : Send(Command(URNIC_RUD_READ, Tid(1), kBytes)))
    EXPECT_EQ(Give(request), RxVerdict::kAccept);
  EXPECT_EQ(b_.Transmit(a_.config().address, 1).size(), 1u);
  EXPECT_EQ(Cancel(b_, b_context_, Tid(2)), URNIC_RUD_SENT);
  EXPECT_TRUE(SendFrom(b_, a_).empty());
}

TEST_F(CancelTest, WhatAPeerWritesIsNoLongerCounted) {
  const auto packets = Send(Command(URNIC_RUD_WRITE, Tid(1), kBytes));
  EXPECT_EQ(Give(packets[0]), RxVerdict::kAccept);
  EXPECT_EQ(Cancel(b_, b_context_, Tid(1, 9)), URNIC_RUD_SENT);
  EXPECT_EQ(Give(packets[1]), RxVerdict::kRudStale);
  EXPECT_TRUE(SendFrom(b_, a_).empty());
}

TEST_F(CancelTest, WhatIsRefused) {
  Send(Command(URNIC_RUD_WRITE, Tid(5), 8));
  EXPECT_EQ(Cancel(a_, a_context_, Tid(5)), URNIC_RUD_OLD_TID);
  EXPECT_EQ(Cancel(a_, {a_context_.number, a_context_.key ^ 1}, Tid(6)),
            URNIC_RUD_BAD_CONTEXT);
  urnic_rud_send command = {};
  command.opcode = URNIC_RUD_CANCEL;
  command.local_context = a_context_.value();
  command.tid = Tid(6);
  command.counter = 1;
  const uint32_t index = a_.Post(command);
  SendFrom(a_, b_);
  EXPECT_EQ(a_.StatusOf(index), URNIC_RUD_BAD_REQUEST);
}

}  // namespace
}  // namespace urnic::testing
