// The rules of a window, one packet at a time. tests/sim/rud_run.h simulates
// networks.

#include "transport/rud/window.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/support/rud_pair.h"

namespace urnic::rud {
namespace {

using testing::Bytes;
using testing::RudEnd;
using testing::RudEndConfig;
using testing::Tid;

constexpr uint32_t kJob = testing::kRudJob;
constexpr uint32_t kAll = testing::kRudAll;
constexpr uint16_t kStride = testing::kRudStride;

class WindowTest : public testing::RudPair {};

TEST_F(WindowTest, AWriteArrivesInAnyOrderAndCompletesOnce) {
  std::vector<Bytes> packets =
      Send(Command(URNIC_RUD_WRITE, Tid(1), 3 * kStride + 5));
  ASSERT_EQ(packets.size(), 4u);
  EXPECT_EQ(a_.StatusOf(0), URNIC_RUD_SENT);
  for (const size_t i : {3, 0, 2}) {
    EXPECT_EQ(Give(packets[i]), RxVerdict::kAccept);
    EXPECT_EQ(Answer(), 0u);
  }
  EXPECT_EQ(Give(packets[1]), RxVerdict::kAccept);
  EXPECT_TRUE(Arrived(3 * kStride + 5));
  EXPECT_EQ(Answer(), 1u);
  const auto got = a_.Poll();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->type, URNIC_RUD_GOT_COMPLETION);
  EXPECT_EQ(got->tid, Tid(1));
  EXPECT_EQ(got->context, a_context_.value());
  EXPECT_FALSE(a_.Poll().has_value());
  EXPECT_FALSE(b_.Poll().has_value());
}

// The document counts bytes, so a duplicate would replace the missing packet.
TEST_F(WindowTest, ADuplicateDoesNotStandForAMissingPacket) {
  const auto packets = Send(Command(URNIC_RUD_WRITE, Tid(1), 2 * kStride));
  EXPECT_EQ(Give(packets[0]), RxVerdict::kAccept);
  EXPECT_EQ(Give(packets[0]), RxVerdict::kRudDuplicate);
  EXPECT_EQ(Answer(), 0u);
  EXPECT_EQ(Give(packets[1]), RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_EQ(Give(packets[1]), RxVerdict::kRudDuplicate);
  EXPECT_EQ(Answer(), 0u);
}

TEST_F(WindowTest, AnOlderTidIsStale) {
  const auto old = Send(Command(URNIC_RUD_WRITE, Tid(1), kStride));
  const auto recent = Send(Command(URNIC_RUD_WRITE, Tid(2), kStride));
  EXPECT_EQ(Give(recent[0]), RxVerdict::kAccept);
  b_bytes_.assign(b_bytes_.size(), 0xee);
  EXPECT_EQ(Give(old[0]), RxVerdict::kRudStale);
  EXPECT_TRUE(Arrived(0));
}

// The document would place it again after the program was notified.
TEST_F(WindowTest, AnotherAttemptAtACompleteTransferIsAnsweredAndNotPlaced) {
  const auto first = Send(Command(URNIC_RUD_WRITE, Tid(1), kStride));
  EXPECT_EQ(Give(first[0]), RxVerdict::kAccept);
  SendFrom(b_, a_);  // the completion is lost
  b_bytes_.assign(b_bytes_.size(), 0xee);
  const auto second = Send(Command(URNIC_RUD_WRITE, Tid(1, 1), kStride));
  EXPECT_EQ(Give(second[0]), RxVerdict::kRudAnsweredAgain);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_EQ(a_.Poll()->tid, Tid(1, 1));
  EXPECT_TRUE(Arrived(0));
}

TEST_F(WindowTest, AStateRequestTellsWhatIsMissingAndFencesOlderAttempts) {
  const auto packets = Send(Command(URNIC_RUD_WRITE, Tid(1), 3 * kStride));
  EXPECT_EQ(Give(packets[1]), RxVerdict::kAccept);
  urnic_rud_send ask = Command(URNIC_RUD_ASK_STATE, Tid(1, 1), 0);
  ask.notify = 0;
  const auto asked = Send(ask);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(Give(asked[0]), RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 1u);
  const auto got = a_.Poll();
  EXPECT_EQ(got->type, URNIC_RUD_GOT_STATE);
  EXPECT_EQ(got->arrived, 0b010u);
  EXPECT_EQ(Give(packets[0]), RxVerdict::kRudStale);
  urnic_rud_send rest = Command(URNIC_RUD_WRITE, Tid(1, 2), 3 * kStride);
  rest.packets = 0b101;
  for (const Bytes& packet : Send(rest))
    EXPECT_EQ(Give(packet), RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_TRUE(Arrived(3 * kStride));
}

TEST_F(WindowTest, TheTargetIsToldWhenItsFifoHasRoomAgain) {
  RudEndConfig small = testing::RudPairConfig(3);
  small.receive_entries = 1;
  RudEnd end(small);
  Bytes bytes(64);
  const Pvo pvo = Register(end, bytes, kAll);
  urnic_rud_send command = {};
  command.opcode = URNIC_RUD_PACKET;
  command.window = 3;
  const auto filler = Send(command);
  EXPECT_EQ(end.Receive(filler[0], a_.config().address), RxVerdict::kRudBadCrc);
  const auto to_end = [&](const urnic_rud_send& c) {
    a_.Post(c);
    const auto sent = a_.Transmit(end.config().address);
    return end.Receive(sent[0].bytes, a_.config().address);
  };
  EXPECT_EQ(to_end(command), RxVerdict::kAccept);
  EXPECT_EQ(to_end(command), RxVerdict::kRudFifoFull);
  urnic_rud_send write = Command(URNIC_RUD_WRITE, Tid(1), 8);
  write.window = 3;
  write.context = end.Acquire().value();
  write.remote_pvo = pvo.value;
  write.notify = URNIC_RUD_NOTIFY_SOURCE | URNIC_RUD_NOTIFY_TARGET;
  EXPECT_EQ(to_end(write), RxVerdict::kAccept);
  EXPECT_EQ(end.Poll()->type, URNIC_RUD_GOT_PACKET);
  EXPECT_FALSE(end.Poll().has_value());
  write.tid = Tid(1, 1);
  EXPECT_EQ(to_end(write), RxVerdict::kRudAnsweredAgain);
  EXPECT_EQ(end.Poll()->type, URNIC_RUD_GOT_TRANSFER);
  write.tid = Tid(1, 2);
  EXPECT_EQ(to_end(write), RxVerdict::kRudAnsweredAgain);
  EXPECT_FALSE(end.Poll().has_value());
}

TEST_F(WindowTest, AReadArrivesAndTellsBothEnds) {
  urnic_rud_send read = Command(URNIC_RUD_READ, Tid(1), 2 * kStride + 1);
  read.notify = URNIC_RUD_NOTIFY_SOURCE | URNIC_RUD_NOTIFY_TARGET;
  std::iota(b_bytes_.begin(), b_bytes_.end(), uint8_t{50});
  const auto request = Send(read);
  ASSERT_EQ(request.size(), 1u);
  EXPECT_EQ(Give(request[0]), RxVerdict::kAccept);
  EXPECT_EQ(Give(request[0]), RxVerdict::kRudBusy);
  const auto data = SendFrom(b_, a_);
  ASSERT_EQ(data.size(), 3u);
  for (const size_t i : {2, 1, 0})
    EXPECT_EQ(a_.Receive(data[i], b_.config().address), RxVerdict::kAccept);
  EXPECT_TRUE(std::equal(a_bytes_.begin(), a_bytes_.begin() + 2 * kStride + 1,
                         b_bytes_.begin()));
  EXPECT_EQ(a_.Poll()->type, URNIC_RUD_GOT_TRANSFER);
  const auto done = SendFrom(a_, b_);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(Give(done[0]), RxVerdict::kAccept);
  EXPECT_EQ(b_.Poll()->type, URNIC_RUD_GOT_COMPLETION);
  EXPECT_EQ(Give(request[0]), RxVerdict::kRudStale);
}

// A peer that answers a read may only write what was requested.
TEST_F(WindowTest, TheAnswerOfAReadGoesWhereTheReadSays) {
  const auto request = Send(Command(URNIC_RUD_READ, Tid(1), kStride));
  const Bytes forged = Forged(request[0], [](uint8_t* packet) {
    auto& pvo = reinterpret_cast<wire::RudRead*>(
                    packet + sizeof(wire::RudBase) + sizeof(wire::RudTransfer))
                    ->target_pvo;
    pvo = wire::Be<uint64_t>(pvo.value() + 64);
  });
  EXPECT_EQ(Give(forged), RxVerdict::kAccept);
  const auto data = SendFrom(b_, a_);
  EXPECT_EQ(a_.Receive(data[0], b_.config().address), RxVerdict::kRudMismatch);
}

TEST_F(WindowTest, JobKeyAndContextAreCheckedInTheirOrder) {
  const auto packet = Send(Command(URNIC_RUD_WRITE, Tid(1), 8))[0];
  const auto with = [&](auto change) {
    return Give(Forged(packet, [&](uint8_t* bytes) {
      change(
          *reinterpret_cast<wire::RudBase*>(bytes),
          *reinterpret_cast<wire::RudTransfer*>(bytes + sizeof(wire::RudBase)));
    }));
  };
  using wire::Be;
  using wire::RudBase;
  using wire::RudTransfer;
  const Be<uint32_t> other(99);
  EXPECT_EQ(with([&](RudBase& b, RudTransfer&) { b.job = b.key = other; }),
            RxVerdict::kRudWrongJob);
  EXPECT_EQ(with([&](RudBase& b, RudTransfer&) { b.key = other; }),
            RxVerdict::kRudWrongKey);
  EXPECT_EQ(with([&](RudBase&, RudTransfer& t) { t.context.number = other; }),
            RxVerdict::kRudUnknownContext);
  EXPECT_EQ(with([&](RudBase&, RudTransfer& t) { t.context.key = other; }),
            RxVerdict::kRudOldContext);
  EXPECT_EQ(with([&](RudBase&, RudTransfer& t) { t.tid = Be<uint64_t>(0); }),
            RxVerdict::kRudStale);
  EXPECT_TRUE(Arrived(0));
  EXPECT_FALSE(b_.window().failed());
  EXPECT_EQ(Give(packet), RxVerdict::kAccept);
}

TEST_F(WindowTest, AContextThatIsUsedAgainTakesNothingForItsFormerOwner) {
  const auto packet = Send(Command(URNIC_RUD_WRITE, Tid(1), 8))[0];
  b_.Release(b_context_);
  ContextId again;
  do {
    again = b_.Acquire();
  } while (again.number != b_context_.number);
  EXPECT_EQ(Give(packet), RxVerdict::kRudOldContext);
  EXPECT_TRUE(Arrived(0));
}

TEST_F(WindowTest, ARecoveryMakesAllContextsNew) {
  const auto packet = Send(Command(URNIC_RUD_WRITE, Tid(1), 8))[0];
  b_.contexts().OnRecovery();
  EXPECT_EQ(Give(packet), RxVerdict::kRudUnknownContext);
  for (uint32_t i = 0; i < b_.contexts().size(); ++i) b_.Acquire();
  EXPECT_EQ(Give(packet), RxVerdict::kRudOldContext);
}

TEST_F(WindowTest, AccessBeyondTheRegistrationEndsTheTransferAndTellsBothEnds) {
  urnic_rud_send write = Command(URNIC_RUD_WRITE, Tid(1), 2 * kStride);
  write.remote_pvo = b_pvo_.value + 4096 - kStride;
  const auto packets = Send(write);
  EXPECT_EQ(Give(packets[1]), RxVerdict::kRudAccess);
  EXPECT_EQ(Give(packets[0]), RxVerdict::kRudEnded);
  EXPECT_TRUE(Arrived(0));
  const auto local = b_.Poll();
  EXPECT_EQ(local->type, URNIC_RUD_GOT_REFUSAL);
  EXPECT_EQ(local->pvo, b_pvo_.value + 4096);
  EXPECT_EQ(Answer(), 1u);
  const auto got = a_.Poll();
  EXPECT_EQ(got->type, URNIC_RUD_GOT_REFUSAL);
  EXPECT_EQ(got->tid, Tid(1));
  EXPECT_FALSE(b_.window().failed());
}

TEST_F(WindowTest, AStaleKeyOfAPvoFailsTheWindow) {
  const auto packet = Send(Command(URNIC_RUD_WRITE, Tid(1), 8))[0];
  ASSERT_TRUE(b_.tces().Deregister(kJob, b_pvo_));
  ASSERT_NE(Register(b_, b_bytes_, kAll), b_pvo_);
  EXPECT_EQ(Give(packet), RxVerdict::kRudStaleKey);
  EXPECT_TRUE(b_.window().failed());
  EXPECT_EQ(Give(packet), RxVerdict::kRudWindowFailed);
  EXPECT_TRUE(Arrived(0));
}

TEST_F(WindowTest, ATableOfAnotherJobIsNotTouched) {
  Bytes other(64);
  const Pvo pvo = b_.tces()
                      .Register(kJob + 1, reinterpret_cast<uint64_t>(&other[0]),
                                64, kAll, PageSize::k4K)
                      .value();
  urnic_rud_send write = Command(URNIC_RUD_WRITE, Tid(1), 8);
  write.remote_pvo = pvo.value;
  EXPECT_EQ(Give(Send(write)[0]), RxVerdict::kRudForeignTable);
  EXPECT_FALSE(b_.window().failed());
}

// A write to the FIFO that notifies its source.
TEST_F(WindowTest, AWriteToTheFifoIsCountedByItsContext) {
  constexpr uint64_t kTag = 0x0123456789abcdef;
  urnic_rud_send c = Command(URNIC_RUD_WRITE, Tid(1), 2 * kStride + 5);
  c.flags = URNIC_RUD_TO_FIFO;
  c.remote_pvo = kTag;
  const std::vector<Bytes> packets = Send(c);
  ASSERT_EQ(packets.size(), 3u);
  EXPECT_EQ(Give(packets[2]), RxVerdict::kAccept);
  EXPECT_EQ(Give(packets[2]), RxVerdict::kRudDuplicate);
  EXPECT_EQ(Give(packets[0]), RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 0u);
  EXPECT_EQ(Give(packets[1]), RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_EQ(a_.Poll()->type, URNIC_RUD_GOT_COMPLETION);
  for (const uint8_t number : {2, 0, 1}) {
    const auto got = b_.Poll();
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->type, URNIC_RUD_GOT_DATA);
    EXPECT_EQ(got->number, number);
    EXPECT_EQ(got->pvo, kTag);
    EXPECT_TRUE(std::equal(got->payload.begin(), got->payload.end(),
                           a_bytes_.begin() + got->offset));
  }
  EXPECT_FALSE(b_.Poll().has_value());
  EXPECT_TRUE(Arrived(0));
  // Another attempt is answered, and nothing arrives again.
  c.tid = Tid(1, 1);
  EXPECT_EQ(Give(Send(c)[0]), RxVerdict::kRudAnsweredAgain);
  EXPECT_FALSE(b_.Poll().has_value());
}

TEST_F(WindowTest, WhatFindsTheFifoFullHasNotArrived) {
  urnic_rud_send c = Command(URNIC_RUD_WRITE, Tid(1), 2 * kStride);
  c.flags = URNIC_RUD_TO_FIFO;
  const std::vector<Bytes> packets = Send(c);
  EXPECT_EQ(Give(packets[0]), RxVerdict::kAccept);
  b_.receive_indices().consumer -= b_.config().receive_entries - 1;
  EXPECT_EQ(Give(packets[1]), RxVerdict::kRudFifoFull);
  b_.receive_indices().consumer += b_.config().receive_entries - 1;
  c = Command(URNIC_RUD_ASK_STATE, Tid(1, 1), 0);
  c.notify = 0;
  EXPECT_EQ(Give(Send(c)[0]), RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 1u);
  const auto state = a_.Poll();
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(state->type, URNIC_RUD_GOT_STATE);
  EXPECT_EQ(state->arrived, 0b01u);
}

// If the peer's answer could go to the FIFO, the read would complete without
// its bytes.
TEST_F(WindowTest, WhatIsReadDoesNotGoToTheFifo) {
  urnic_rud_send c = Command(URNIC_RUD_READ, Tid(1), 8);
  c.notify = URNIC_RUD_NOTIFY_TARGET;
  for (const Bytes& packet : Send(c))
    EXPECT_EQ(Give(packet), RxVerdict::kAccept);
  const std::vector<Bytes> data = SendFrom(b_, a_);
  ASSERT_EQ(data.size(), 1u);
  Bytes forged = data[0];
  forged[offsetof(wire::RudBase, flags)] |= wire::kRudToFifo;
  const size_t body = forged.size() - wire::kRudCrcBytes;
  wire::Crc32c crc =
      wire::RudCrcOfAddresses(b_.config().address, a_.config().address);
  crc.Add(std::span(forged).first(body)).Store(&forged[body]);
  EXPECT_EQ(a_.Receive(forged, b_.config().address), RxVerdict::kRudMismatch);
  EXPECT_EQ(a_.Receive(data[0], b_.config().address), RxVerdict::kAccept);
}

TEST_F(WindowTest, AWrongCommandSaysWhatIsWrong) {
  const auto status = [&](urnic_rud_send command) {
    const uint32_t index = a_.Post(command);
    EXPECT_TRUE(SendFrom(a_, b_).empty());
    return a_.StatusOf(index);
  };
  urnic_rud_send c = Command(URNIC_RUD_WRITE, Tid(1), 8);
  c.opcode = 99;
  EXPECT_EQ(status(c), URNIC_RUD_BAD_REQUEST);
  c = Command(URNIC_RUD_WRITE, Tid(1), 8);
  c.packets = 0b10;
  EXPECT_EQ(status(c), URNIC_RUD_BAD_REQUEST);
  c = Command(URNIC_RUD_WRITE, Tid(1), 64 * kStride);
  c.bytes = 65 * kStride;
  EXPECT_EQ(status(c), URNIC_RUD_BAD_REQUEST);
  c = Command(URNIC_RUD_WRITE, Tid(1), 8);
  c.stride = 0;
  EXPECT_EQ(status(c), URNIC_RUD_BAD_REQUEST);
  c = Command(URNIC_RUD_WRITE, Tid(1), 8);
  c.local_context = b_context_.value() + 1000;
  EXPECT_EQ(status(c), URNIC_RUD_BAD_CONTEXT);
  c = Command(URNIC_RUD_WRITE, 0, 8);
  EXPECT_EQ(status(c), URNIC_RUD_OLD_TID);
  EXPECT_FALSE(a_.window().failed());
  c = Command(URNIC_RUD_WRITE, Tid(1), 8);
  c.local_pvo += 4096;
  EXPECT_EQ(status(c), URNIC_RUD_BAD_PVO);
  EXPECT_TRUE(a_.window().failed());
  const uint32_t late = a_.Post(Command(URNIC_RUD_WRITE, Tid(2), 8));
  a_.window().Flush();
  EXPECT_EQ(a_.StatusOf(late), URNIC_RUD_FLUSHED);
}

TEST_F(WindowTest, CompletionsForOneWindowShareAPacket) {
  for (int i = 0; i < 5; ++i) {
    urnic_rud_send write = Command(URNIC_RUD_WRITE, Tid(1), 8);
    write.flags = URNIC_RUD_INLINE_DATA;
    write.local_context = a_.Acquire().value();
    write.context = b_.Acquire().value();
    EXPECT_EQ(Give(Send(write)[0]), RxVerdict::kAccept);
  }
  EXPECT_EQ(Answer(), 1u);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(a_.Poll()->type, URNIC_RUD_GOT_COMPLETION);
}

TEST_F(WindowTest, MemoryThatIsGoneEndsWhatUsesIt) {
  b_.is_gone = [&](uint64_t address) {
    return address >= reinterpret_cast<uint64_t>(b_bytes_.data()) &&
           address < reinterpret_cast<uint64_t>(b_bytes_.data()) + 4096;
  };
  EXPECT_EQ(Give(Send(Command(URNIC_RUD_WRITE, Tid(1), 8))[0]),
            RxVerdict::kAccept);
  EXPECT_EQ(b_.Poll()->type, URNIC_RUD_GOT_REFUSAL);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_EQ(a_.Poll()->type, URNIC_RUD_GOT_REFUSAL);
  EXPECT_EQ(Give(Send(Command(URNIC_RUD_READ, Tid(2), 8))[0]),
            RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 0u);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_EQ(a_.Poll()->type, URNIC_RUD_GOT_REFUSAL);
}

TEST_F(WindowTest, AProgramThatWritesNonsenseIntoItsIndicesHarmsOnlyItself) {
  a_.send_indices().producer = 1000000;
  EXPECT_TRUE(SendFrom(a_, b_).empty());
  b_.receive_indices().consumer = 77;
  urnic_rud_send packet = {};
  packet.opcode = URNIC_RUD_PACKET;
  packet.window = 2;
  a_.send_indices().producer = 0;
  EXPECT_EQ(Give(Send(packet)[0]), RxVerdict::kRudFifoFull);
}

// With many transfers in flight, completions share packets.
TEST_F(WindowTest, CompletionsThatShareAPacketFitIntoTheLongestOfTheLink) {
  testing::RudEndConfig config = testing::RudPairConfig(3);
  config.window.max_payload = 64;
  RudEnd end(config);
  Bytes bytes(64);
  const Pvo pvo = Register(end, bytes, kAll);
  std::vector<Bytes> burst;
  for (uint32_t i = 0; i < kBurstMax; ++i) {
    urnic_rud_send write = Command(URNIC_RUD_WRITE, Tid(1), 2);
    write.window = 3;
    write.local_context = a_.Acquire().value();
    write.context = end.Acquire().value();
    write.remote_pvo = pvo.value + 2 * i;
    a_.Post(write);
    for (auto& sent : a_.Transmit(end.config().address))
      burst.push_back(std::move(sent.bytes));
  }
  for (const RxVerdict verdict : end.ReceiveBurst(burst, a_.config().address))
    ASSERT_EQ(verdict, RxVerdict::kAccept);
  size_t completions = 0;
  for (const auto& sent : end.Transmit(a_.config().address)) {
    EXPECT_LE(sent.bytes.size(),
              64 + wire::kRudMaxHeaderBytes + wire::kRudCrcBytes);
    completions +=
        (sent.bytes.size() - sizeof(wire::RudBase) - wire::kRudCrcBytes) /
        sizeof(wire::RudCompletion);
  }
  EXPECT_EQ(completions, size_t{kBurstMax});
}

}  // namespace
}  // namespace urnic::rud
