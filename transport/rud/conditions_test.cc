// Counters, what they count, and commands that wait for them.

#include "transport/rud/conditions.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "tests/support/rud_pair.h"

namespace urnic::rud {
namespace {

using testing::Bytes;
using testing::RudEnd;
using testing::Tid;

constexpr uint16_t kStride = testing::kRudStride;
constexpr uint8_t kCounter = 5;

class ConditionsTest : public testing::RudPair {
 protected:
  static urnic_rud_send OnCounter(uint8_t opcode, uint64_t value = 0) {
    urnic_rud_send command = {};
    command.opcode = opcode;
    command.counter = kCounter;
    command.value = value;
    return command;
  }
  // A packet for B that waits for the counter.
  static urnic_rud_send Signal(uint64_t value, uint8_t tag = 0) {
    urnic_rud_send command = {};
    command.opcode = URNIC_RUD_PACKET;
    command.flags = URNIC_RUD_INLINE_DATA;
    command.peer = 1;
    command.window = 2;
    command.bytes = 3;
    command.data[0] = command.tag[0] = tag;
    command.condition = kCounter;
    command.value = value;
    return command;
  }
  // A write whose completion only a counter reports.
  urnic_rud_send Counted(uint64_t tid = Tid(1), uint32_t bytes = 8) {
    urnic_rud_send command = Command(URNIC_RUD_WRITE, tid, bytes);
    command.flags = URNIC_RUD_COUNT_ONLY;
    command.counter = kCounter;
    return command;
  }
  urnic_rud_send OnOthers(urnic_rud_send command) {
    command.local_context = a_.Acquire().value();
    command.context = b_.Acquire().value();
    return command;
  }
  uint32_t StatusOfPosted(const urnic_rud_send& command) {
    const uint32_t index = a_.Post(command);
    EXPECT_TRUE(SendFrom(a_, b_).empty());
    return a_.StatusOf(index);
  }
  static uint64_t ValueAt(RudEnd& end) {
    end.Post(OnCounter(URNIC_RUD_ASK_COUNTER));
    EXPECT_TRUE(end.Transmit().empty());
    const auto got = end.Poll();
    EXPECT_TRUE(got.has_value());
    if (!got.has_value()) return UINT64_MAX;
    EXPECT_EQ(got->type, URNIC_RUD_GOT_COUNTER);
    EXPECT_EQ(got->number, kCounter);
    return got->value;
  }
  // Makes B count arrivals.
  void CountArrivals(uint8_t flags = 0) {
    urnic_rud_send command = OnCounter(URNIC_RUD_COUNT_ARRIVALS);
    command.flags = flags;
    command.local_context = b_context_.value();
    b_.Post(command);
    EXPECT_TRUE(SendFrom(b_, a_).empty());
  }
};

// Document C: a set of writes, and a signal that all of them are complete.
TEST_F(ConditionsTest, ASignalFollowsTheLastCompletionOfASet) {
  std::vector<Bytes> packets;
  for (int i = 0; i < 3; ++i) {
    for (Bytes& packet : Send(OnOthers(Counted())))
      packets.push_back(std::move(packet));
  }
  EXPECT_EQ(StatusOfPosted(Signal(3, 77)), URNIC_RUD_HELD);
  for (const size_t i : {2, 0}) {
    EXPECT_EQ(Give(packets[i]), RxVerdict::kAccept);
    EXPECT_EQ(Answer(), 1u);
    EXPECT_TRUE(SendFrom(a_, b_).empty());
    EXPECT_FALSE(a_.window().HasWork());
  }
  EXPECT_EQ(Give(packets[1]), RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_TRUE(a_.window().HasWork());
  const auto signal = SendFrom(a_, b_);
  ASSERT_EQ(signal.size(), 1u);
  EXPECT_EQ(Give(signal[0]), RxVerdict::kAccept);
  EXPECT_EQ(b_.Poll()->payload[0], 77);
  EXPECT_FALSE(a_.Poll().has_value()) << "only the counter is told";
}

TEST_F(ConditionsTest, ACompletionIsCountedOnceThoughItComesForEachAttempt) {
  EXPECT_EQ(Give(Send(Counted(Tid(1)))[0]), RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_EQ(ValueAt(a_), 1u);
  // Another attempt, as if the program did not know of the completion.
  EXPECT_EQ(Give(Send(Counted(Tid(1, 1)))[0]), RxVerdict::kRudAnsweredAgain);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_EQ(ValueAt(a_), 1u);
  EXPECT_EQ(Give(Send(Counted(Tid(2)))[0]), RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_EQ(ValueAt(a_), 2u);
}

// The peer uses the same context for a write whose packet is lost.
TEST_F(ConditionsTest, APeersStateRequestIsNoAttemptThatWasCounted) {
  EXPECT_EQ(Give(Send(Counted(Tid(1)))[0]), RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 1u);
  urnic_rud_send command = Command(URNIC_RUD_WRITE, Tid(2), 8);
  command.window = 1;
  std::swap(command.context, command.local_context);
  std::swap(command.remote_pvo, command.local_pvo);
  b_.Post(command);
  command.opcode = URNIC_RUD_ASK_STATE;
  command.notify = 0;
  command.tid = Tid(2, 1);
  b_.Post(command);
  EXPECT_EQ(a_.Receive(SendFrom(b_, a_).back(), b_.config().address),
            RxVerdict::kAccept);
  SendFrom(a_, b_);
  urnic_rud_send write = Counted(Tid(2, 2));
  write.context = b_.Acquire().value();
  EXPECT_EQ(Give(Send(write)[0]), RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_EQ(ValueAt(a_), 2u);
}

TEST_F(ConditionsTest, ACompletionIsCountedThoughTheFifoIsFull) {
  urnic_rud_send write = Counted();
  write.flags = 0;
  EXPECT_EQ(Give(Send(write)[0]), RxVerdict::kAccept);
  const auto answers = SendFrom(b_, a_);
  a_.receive_indices().consumer -= a_.config().receive_entries;
  EXPECT_EQ(a_.Receive(answers[0], b_.config().address),
            RxVerdict::kRudFifoFull);
  a_.receive_indices().consumer += a_.config().receive_entries;
  EXPECT_EQ(ValueAt(a_), 1u);
  write.tid = Tid(1, 1);
  EXPECT_EQ(Give(Send(write)[0]), RxVerdict::kRudAnsweredAgain);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_EQ(a_.Poll()->type, URNIC_RUD_GOT_COMPLETION);
  EXPECT_EQ(ValueAt(a_), 1u);
}

TEST_F(ConditionsTest, ARefusalIsToldAndNotCounted) {
  urnic_rud_send write = Counted();
  write.remote_pvo += 4095;  // 4096 would be a key fault
  EXPECT_EQ(Give(Send(write)[0]), RxVerdict::kRudAccess);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_EQ(a_.Poll()->type, URNIC_RUD_GOT_REFUSAL);
  EXPECT_EQ(ValueAt(a_), 0u);
}

TEST_F(ConditionsTest, AReadIsCountedWhenItsBytesAreThere) {
  urnic_rud_send read = Command(URNIC_RUD_READ, Tid(1), 2 * kStride);
  read.notify = 0;
  read.counter = kCounter;
  EXPECT_EQ(Give(Send(read)[0]), RxVerdict::kAccept);
  const auto data = SendFrom(b_, a_);
  EXPECT_EQ(a_.Receive(data[1], b_.config().address), RxVerdict::kAccept);
  EXPECT_EQ(ValueAt(a_), 0u);
  EXPECT_EQ(a_.Receive(data[0], b_.config().address), RxVerdict::kAccept);
  EXPECT_EQ(ValueAt(a_), 1u);
  EXPECT_EQ(a_.Receive(data[0], b_.config().address), RxVerdict::kRudDuplicate);
  EXPECT_EQ(ValueAt(a_), 1u);
  EXPECT_FALSE(a_.Poll().has_value());
}

// --- Arrivals ----------------------------------------------------------------

// A write without bytes is a signal. It goes to a context, so it is counted
// once.
TEST_F(ConditionsTest, ATransferToAContextIsCountedOnce) {
  CountArrivals();
  const auto signal = [&](uint64_t tid) {
    urnic_rud_send write = Command(URNIC_RUD_WRITE, tid, 0);
    write.notify = 0;
    return Send(write)[0];
  };
  const Bytes first = signal(Tid(1));
  EXPECT_EQ(Give(first), RxVerdict::kAccept);
  EXPECT_EQ(ValueAt(b_), 1u);
  EXPECT_EQ(Give(first), RxVerdict::kRudDuplicate);
  EXPECT_EQ(Give(signal(Tid(1, 1))), RxVerdict::kRudAnsweredAgain);
  EXPECT_EQ(ValueAt(b_), 1u);
  EXPECT_EQ(Give(signal(Tid(2))), RxVerdict::kAccept);
  EXPECT_EQ(ValueAt(b_), 2u);
}

TEST_F(ConditionsTest, ForgedSignalsAreCountedVerdictsAndNotSignals) {
  CountArrivals();
  const auto signal = Send(Command(URNIC_RUD_WRITE, Tid(1), 0))[0];
  const auto with = [&](auto change) {
    return Give(Forged(signal, [&](uint8_t* bytes) {
      change(
          *reinterpret_cast<wire::RudBase*>(bytes),
          *reinterpret_cast<wire::RudTransfer*>(bytes + sizeof(wire::RudBase)));
    }));
  };
  using wire::Be;
  using wire::RudBase;
  using wire::RudTransfer;
  const Be<uint32_t> other(99);
  EXPECT_EQ(with([&](RudBase& b, RudTransfer&) { b.job = other; }),
            RxVerdict::kRudWrongJob);
  EXPECT_EQ(with([&](RudBase& b, RudTransfer&) { b.key = other; }),
            RxVerdict::kRudWrongKey);
  EXPECT_EQ(with([&](RudBase&, RudTransfer& t) { t.context.number = other; }),
            RxVerdict::kRudUnknownContext);
  EXPECT_EQ(with([&](RudBase&, RudTransfer& t) { t.context.key = other; }),
            RxVerdict::kRudOldContext);
  EXPECT_EQ(with([&](RudBase&, RudTransfer& t) { t.tid = Be<uint64_t>(0); }),
            RxVerdict::kRudStale);
  EXPECT_EQ(ValueAt(b_), 0u);
}

TEST_F(ConditionsTest, PacketsForTheFifoAreCountedIfTheyFindRoom) {
  CountArrivals(URNIC_RUD_TO_FIFO);
  urnic_rud_send packet = Signal(0);
  packet.condition = 0;
  const auto sent = Send(packet);
  EXPECT_EQ(Give(sent[0]), RxVerdict::kAccept);
  b_.receive_indices().consumer -= b_.config().receive_entries - 1;
  EXPECT_EQ(Give(sent[0]), RxVerdict::kRudFifoFull);
  b_.receive_indices().consumer += b_.config().receive_entries - 1;
  b_.Poll();
  EXPECT_EQ(ValueAt(b_), 1u);
}

TEST_F(ConditionsTest, ACommandWaitsForWhatAPeerWrites) {
  CountArrivals();
  urnic_rud_send back = Signal(1, 9);
  back.window = 1;
  b_.Post(back);
  EXPECT_TRUE(SendFrom(b_, a_).empty());
  urnic_rud_send write = Command(URNIC_RUD_WRITE, Tid(1), 8);
  write.notify = 0;
  EXPECT_EQ(Give(Send(write)[0]), RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_EQ(a_.Poll()->tag[0], 9);
}

// --- Counters and queues -----------------------------------------------------

TEST_F(ConditionsTest, CountersAreSetAndAsked) {
  EXPECT_EQ(ValueAt(a_), 0u);
  EXPECT_EQ(StatusOfPosted(OnCounter(URNIC_RUD_SET_COUNTER, 1ull << 60)),
            URNIC_RUD_SENT);
  EXPECT_EQ(ValueAt(a_), 1ull << 60);
  EXPECT_EQ(StatusOfPosted(OnCounter(URNIC_RUD_SET_COUNTER, 0)),
            URNIC_RUD_SENT);
  EXPECT_EQ(ValueAt(a_), 0u);
}

TEST_F(ConditionsTest, AConditionThatHoldsHoldsNothing) {
  StatusOfPosted(OnCounter(URNIC_RUD_SET_COUNTER, 4));
  EXPECT_EQ(Send(Signal(4)).size(), 1u);
  EXPECT_EQ(Send(Signal(3)).size(), 1u);
  EXPECT_TRUE(Send(Signal(5)).empty());
}

TEST_F(ConditionsTest, SettingACounterReleasesInTheOrderOfPosting) {
  for (uint8_t i = 0; i < 4; ++i)
    EXPECT_EQ(StatusOfPosted(Signal(i % 2 == 0 ? 7 : 9, i)), URNIC_RUD_HELD);
  EXPECT_EQ(a_.window().held(), 4u);
  a_.Post(OnCounter(URNIC_RUD_SET_COUNTER, 8));
  for (const Bytes& packet : SendFrom(a_, b_))
    EXPECT_EQ(Give(packet), RxVerdict::kAccept);
  for (const uint8_t tag : {0, 2}) {
    const auto got = b_.Poll();
    EXPECT_EQ(got->tag[0], tag);
    EXPECT_EQ(got->payload[0], tag) << "its own payload";
  }
  EXPECT_FALSE(b_.Poll().has_value());
  EXPECT_EQ(a_.window().held(), 2u);
}

TEST_F(ConditionsTest, WhatWaitsCanBeDropped) {
  StatusOfPosted(Signal(1));
  urnic_rud_send other = Signal(1);
  other.condition = kCounter + 1;
  StatusOfPosted(other);
  a_.Post(OnCounter(URNIC_RUD_ASK_COUNTER));
  SendFrom(a_, b_);
  EXPECT_EQ(a_.Poll()->held, 1u);
  EXPECT_EQ(StatusOfPosted(OnCounter(URNIC_RUD_DROP_HELD)), URNIC_RUD_SENT);
  EXPECT_EQ(a_.window().held(), 1u);
  EXPECT_EQ(StatusOfPosted(OnCounter(URNIC_RUD_SET_COUNTER, 1)),
            URNIC_RUD_SENT);
}

TEST_F(ConditionsTest, SoManyWaitAndNoMore) {
  for (uint32_t turn = 0; turn < 3; ++turn) {
    for (uint32_t i = 0; i < Conditions::kMaxHeld; ++i)
      EXPECT_EQ(StatusOfPosted(Signal(1)), URNIC_RUD_HELD);
    EXPECT_EQ(StatusOfPosted(Signal(1)), URNIC_RUD_NO_ROOM);
    size_t sent = 0;
    a_.Post(OnCounter(URNIC_RUD_SET_COUNTER, 1));
    while (a_.window().HasWork()) sent += SendFrom(a_, b_).size();
    EXPECT_EQ(sent, Conditions::kMaxHeld);
    StatusOfPosted(OnCounter(URNIC_RUD_SET_COUNTER, 0));
  }
}

// --- What is released, and wrong ---------------------------------------------

TEST_F(ConditionsTest, AWriteThatWaitedMayComeTooLate) {
  urnic_rud_send write = Command(URNIC_RUD_WRITE, Tid(1), 8);
  write.condition = kCounter;
  write.value = 1;
  EXPECT_EQ(StatusOfPosted(write), URNIC_RUD_HELD);
  Send(Command(URNIC_RUD_WRITE, Tid(2), 8));
  EXPECT_EQ(StatusOfPosted(OnCounter(URNIC_RUD_SET_COUNTER, 1)),
            URNIC_RUD_SENT);
  const auto got = a_.Poll();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->type, URNIC_RUD_GOT_UNSENT);
  EXPECT_EQ(got->number, kCounter);
  EXPECT_EQ(got->context, a_context_.value());
  EXPECT_EQ(got->tid, Tid(1));
  EXPECT_EQ(got->value, URNIC_RUD_OLD_TID);
  EXPECT_FALSE(a_.window().failed());
}

TEST_F(ConditionsTest, AWriteThatWaitedReadsWhatIsRegisteredThen) {
  urnic_rud_send write = Command(URNIC_RUD_WRITE, Tid(1), 8);
  write.condition = kCounter;
  write.value = 1;
  EXPECT_EQ(StatusOfPosted(write), URNIC_RUD_HELD);
  ASSERT_TRUE(a_.tces().Deregister(testing::kRudJob, a_pvo_));
  EXPECT_EQ(StatusOfPosted(OnCounter(URNIC_RUD_SET_COUNTER, 1)),
            URNIC_RUD_SENT);
  EXPECT_TRUE(a_.window().failed());
}

// The command is sent in several turns, so its payload must stay.
TEST_F(ConditionsTest, InlinePayloadOfWhatWaitedStaysUntilAllIsSent) {
  urnic_rud_send write = Command(URNIC_RUD_WRITE, Tid(1), 32);
  write.flags = URNIC_RUD_INLINE_DATA;
  write.stride = 1;
  write.packets = wire::RudAllPackets(32);
  write.condition = kCounter;
  write.value = 1;
  for (uint8_t i = 0; i < 32; ++i) write.data[i] = i;
  EXPECT_EQ(StatusOfPosted(write), URNIC_RUD_HELD);
  a_.Post(OnCounter(URNIC_RUD_SET_COUNTER, 1));
  std::vector<RudEnd::Sent> sent;
  for (int turn = 0; turn < 8; ++turn) {
    for (RudEnd::Sent& one : a_.Transmit(b_.config().address, 4))
      sent.push_back(std::move(one));
    // Other commands take the places of finished ones.
    urnic_rud_send other = Signal(99, 0xaa);
    other.data[1] = 0xaa;
    if (turn == 0) {
      for (uint32_t i = 0; i < 8; ++i) a_.Post(other);
    }
  }
  ASSERT_EQ(sent.size(), 32u);
  for (const RudEnd::Sent& one : sent)
    EXPECT_EQ(Give(one.bytes), RxVerdict::kAccept);
  for (uint8_t i = 0; i < 32; ++i) EXPECT_EQ(b_bytes_[i], i);
}

TEST_F(ConditionsTest, AWindowThatFailsForgetsWhatWaits) {
  StatusOfPosted(Signal(1));
  a_.window().Fail();
  EXPECT_EQ(a_.window().held(), 0u);
  EXPECT_FALSE(a_.window().HasWork());
}

TEST_F(ConditionsTest, WrongCommandsSayWhatIsWrong) {
  const auto with = [&](urnic_rud_send command, auto change) {
    change(command);
    return StatusOfPosted(command);
  };
  using Send = urnic_rud_send;
  const Send signal = Signal(1);
  const Send write = Counted();
  const Send set = OnCounter(URNIC_RUD_SET_COUNTER);
  const auto wrong = std::vector<uint32_t>{
      with(signal, [](Send& c) { c.condition = URNIC_RUD_COUNTERS; }),
      // The slot could be overwritten while it waits.
      with(signal, [](Send& c) { c.flags = 0; }),
      with(signal, [](Send& c) { c.counter = 1; }),
      with(write, [](Send& c) { c.counter = URNIC_RUD_COUNTERS; }),
      with(write, [](Send& c) { c.counter = 0; }),
      // There would be no completion to count.
      with(write, [](Send& c) { c.notify = URNIC_RUD_NOTIFY_TARGET; }),
      with(write, [](Send& c) { c.opcode = URNIC_RUD_READ; }),
      with(write, [](Send& c) { c.opcode = URNIC_RUD_ASK_STATE; }),
      with(set, [](Send& c) { c.counter = 0; }),
      with(set, [](Send& c) { c.condition = 1; }),
      with(set, [](Send& c) { c.notify = 1; }),
      with(set, [](Send& c) { c.flags = URNIC_RUD_TO_FIFO; }),
      with(set, [](Send& c) { c.opcode = 10; }),
  };
  for (size_t i = 0; i < wrong.size(); ++i)
    EXPECT_EQ(wrong[i], URNIC_RUD_BAD_REQUEST) << i;
  EXPECT_EQ(with(set,
                 [](Send& c) {
                   c.opcode = URNIC_RUD_COUNT_ARRIVALS;
                   c.local_context = 12345;
                 }),
            URNIC_RUD_BAD_CONTEXT);
  EXPECT_FALSE(a_.window().failed());
  EXPECT_EQ(a_.window().held(), 0u);
}

}  // namespace
}  // namespace urnic::rud
