// Bursts, peers with the right keys, and programs that do what no upper layer
// would.

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/rud_pair.h"

namespace urnic::rud {
namespace {

using testing::Bytes;
using testing::RudEnd;
using testing::Tid;
using wire::Be;

constexpr uint16_t kStride = testing::kRudStride;

class HostileTest : public testing::RudPair {
 protected:
  std::vector<RxVerdict> GiveBurst(const std::vector<Bytes>& burst) {
    return b_.ReceiveBurst(burst, a_.config().address);
  }
  urnic_rud_send StateRequest(uint64_t tid) const {
    urnic_rud_send ask = Command(URNIC_RUD_ASK_STATE, tid, 0);
    ask.notify = 0;
    return ask;
  }
  // Changes the read header of a request.
  template <typename Change>
  Bytes ForgedRead(const Bytes& packet, Change&& change) const {
    return Forged(packet, [&](uint8_t* bytes) {
      change(*reinterpret_cast<wire::RudRead*>(bytes + sizeof(wire::RudBase) +
                                               sizeof(wire::RudTransfer)));
    });
  }
};

// --- Bursts ------------------------------------------------------------------

// When the program sees the entry, it may use its memory again.
TEST_F(HostileTest, NothingIsPlacedAfterTheEntryOfARefusal) {
  urnic_rud_send write = Command(URNIC_RUD_WRITE, Tid(1), 2 * kStride);
  write.remote_pvo = b_pvo_.value + 4096 - kStride;
  bool placed = false;
  b_.on_place = [&](const Placement&, const RxPacket&) {
    placed = true;
    EXPECT_FALSE(b_.Poll().has_value());
  };
  EXPECT_EQ(GiveBurst(Send(write)),
            (std::vector{RxVerdict::kAccept, RxVerdict::kRudAccess}));
  EXPECT_TRUE(placed);
  EXPECT_EQ(b_.Poll()->type, URNIC_RUD_GOT_REFUSAL);
}

TEST_F(HostileTest, AFaultEndsOnlyTheTransferThatHadIt) {
  const auto old = Send(Command(URNIC_RUD_WRITE, Tid(1), 2 * kStride));
  const auto recent = Send(Command(URNIC_RUD_WRITE, Tid(2), kStride));
  int uses = 0;
  b_.is_gone = [&](uint64_t) { return uses++ == 0; };
  GiveBurst({old[0], recent[0]});
  EXPECT_EQ(uses, 2);
  EXPECT_FALSE(b_.Poll().has_value());
  EXPECT_EQ(Answer(), 1u);
  EXPECT_EQ(a_.Poll()->type, URNIC_RUD_GOT_COMPLETION);
}

// If the answer were a state with nothing missing, the source would have
// nothing to send, and no completion.
TEST_F(HostileTest, AStateRequestBehindTheLastPacketIsAnsweredByACompletion) {
  auto burst = Send(Command(URNIC_RUD_WRITE, Tid(1), 2 * kStride));
  burst.push_back(Send(StateRequest(Tid(1, 1)))[0]);
  GiveBurst(burst);
  EXPECT_EQ(Answer(), 1u);
  const auto got = a_.Poll();
  EXPECT_EQ(got->type, URNIC_RUD_GOT_COMPLETION);
  EXPECT_EQ(got->tid, Tid(1, 1));
  EXPECT_FALSE(a_.Poll().has_value());
}

TEST_F(HostileTest, WhoAsksIsAnsweredThoughTheFirstAttemptWantedNothing) {
  urnic_rud_send write = Command(URNIC_RUD_WRITE, Tid(1), 8);
  write.notify = 0;
  EXPECT_EQ(Give(Send(write)[0]), RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 0u);
  Send(Command(URNIC_RUD_WRITE, Tid(1, 1), 8));  // lost
  EXPECT_EQ(Give(Send(StateRequest(Tid(1, 2)))[0]),
            RxVerdict::kRudAnsweredAgain);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_EQ(a_.Poll()->type, URNIC_RUD_GOT_COMPLETION);
}

// --- Peers -------------------------------------------------------------------

// The path of the first attempt may be dead.
TEST_F(HostileTest, AnAnswerTakesThePathOfItsAttempt) {
  urnic_rud_send write = Command(URNIC_RUD_WRITE, Tid(1), 8);
  write.path = 1;
  EXPECT_EQ(Give(Send(write)[0]), RxVerdict::kAccept);
  SendFrom(b_, a_);  // lost
  write.tid = Tid(1, 1);
  write.path = 2;
  EXPECT_EQ(Give(Send(write)[0]), RxVerdict::kRudAnsweredAgain);
  EXPECT_EQ(SendFrom(b_, a_)[0][offsetof(wire::RudBase, path)], 2);
  urnic_rud_send ask = StateRequest(Tid(1, 2));
  ask.path = 3;
  EXPECT_EQ(Give(Send(ask)[0]), RxVerdict::kRudAnsweredAgain);
  EXPECT_EQ(SendFrom(b_, a_)[0][offsetof(wire::RudBase, path)], 3);
}

TEST_F(HostileTest, AStateHasNoBitsOfAForgottenTransfer) {
  EXPECT_EQ(Give(Send(Command(URNIC_RUD_WRITE, Tid(1), 8))[0]),
            RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 1u);
  // B writes from the context, without a notification.
  urnic_rud_send back = Command(URNIC_RUD_WRITE, Tid(2), 8);
  back.notify = 0;
  std::swap(back.context, back.local_context);
  std::swap(back.local_pvo, back.remote_pvo);
  b_.Post(back);
  SendFrom(b_, a_);
  a_.Poll();
  urnic_rud_send lost = Command(URNIC_RUD_WRITE, Tid(2), 8);
  Send(lost);
  EXPECT_EQ(Give(Send(StateRequest(Tid(2, 1)))[0]), RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 1u);
  const auto got = a_.Poll();
  EXPECT_EQ(got->type, URNIC_RUD_GOT_STATE);
  EXPECT_EQ(got->arrived, 0u);
}

// Such a packet would not fit into a frame.
TEST_F(HostileTest, AReadWithPacketsThatFitIntoNoFrameIsDropped) {
  Bytes memory(size_t{1} << 17);
  const Pvo pvo = Register(b_, memory, testing::kRudAll);
  const auto request = Send(Command(URNIC_RUD_READ, Tid(1), 8))[0];
  const auto with = [&](uint32_t total, uint16_t stride) {
    return Give(ForgedRead(request, [&](wire::RudRead& read) {
      read.source_pvo = Be<uint64_t>(pvo.value);
      read.total = Be<uint32_t>(total);
      read.stride = Be<uint16_t>(stride);
    }));
  };
  EXPECT_EQ(with(65535, 65535), RxVerdict::kRudTooLong);
  EXPECT_EQ(with(RudEnd::kSlotBytes + 1, RudEnd::kSlotBytes + 1),
            RxVerdict::kRudTooLong);
  EXPECT_TRUE(SendFrom(b_, a_).empty());
  EXPECT_EQ(with(8, 65535), RxVerdict::kRudTooLong);
  EXPECT_EQ(with(RudEnd::kSlotBytes, RudEnd::kSlotBytes), RxVerdict::kAccept);
  EXPECT_EQ(SendFrom(b_, a_).size(), 1u);
}

// On the context of a read there is a peer's write with the same transfer
// number, length and stride.
TEST_F(HostileTest, AReadIsNotCompleteByThePeersWrite) {
  EXPECT_EQ(Give(Send(Command(URNIC_RUD_WRITE, Tid(2), 8))[0]),
            RxVerdict::kAccept);
  const auto read_back = [&](uint64_t tid) {
    urnic_rud_send read = Command(URNIC_RUD_READ, tid, 8);
    read.notify = URNIC_RUD_NOTIFY_TARGET;
    std::swap(read.context, read.local_context);
    std::swap(read.local_pvo, read.remote_pvo);
    b_.Post(read);
    return SendFrom(b_, a_);
  };
  Answer();
  EXPECT_FALSE(read_back(Tid(3)).empty());
  const auto data = [&] {
    const auto requests = read_back(Tid(3, 1));
    EXPECT_EQ(a_.Receive(requests[0], b_.config().address), RxVerdict::kAccept);
    return SendFrom(a_, b_);
  }();
  EXPECT_EQ(Give(data[0]), RxVerdict::kAccept);
  EXPECT_EQ(b_.Poll()->type, URNIC_RUD_GOT_TRANSFER);
  // The peer writes with the number of the next transfer.
  EXPECT_EQ(Give(Send(Command(URNIC_RUD_WRITE, Tid(4), 8))[0]),
            RxVerdict::kAccept);
  EXPECT_EQ(read_back(Tid(4, 1)).size(), 2u);  // a completion, and the request
  EXPECT_FALSE(b_.Poll().has_value());
}

// Completions and notices that nobody awaits change nothing.
TEST_F(HostileTest, ForgedAnswersAreCountedAndDropped) {
  const auto give = [&](const auto&... headers) {
    Bytes body;
    const auto add = [&](const auto& header) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(&header);
      body.insert(body.end(), bytes, bytes + sizeof(header));
    };
    (add(headers), ...);
    body.resize(body.size() + wire::kRudCrcBytes);
    return Give(Forged(body, [](uint8_t*) {}));
  };
  const auto base_of = [](wire::RudType type, uint16_t bytes) {
    wire::RudBase base;
    base.SetType(type);
    base.job = Be<uint32_t>(testing::kRudJob);
    base.key = Be<uint32_t>(testing::kRudKey);
    base.payload_bytes = Be<uint16_t>(bytes);
    return base;
  };
  const auto completion = [&](ContextId context, uint64_t tid) {
    wire::RudCompletion done;
    done.source = ToWire(context);
    done.tid = Be<uint64_t>(tid);
    return give(base_of(wire::RudType::kCompletion, sizeof(done)), done);
  };
  const auto notice = [&](ContextId context, uint64_t tid, uint8_t reason) {
    wire::RudNotice refusal;
    refusal.reason = reason;
    return give(base_of(wire::RudType::kNotice, 0),
                wire::RudTransfer{ToWire(context), Be<uint64_t>(tid)}, refusal);
  };
  const ContextId former = {b_context_.number, b_context_.key - 1};
  const ContextId none = {UINT32_MAX, b_context_.key};
  // B awaits nothing.
  EXPECT_EQ(completion(b_context_, 0), RxVerdict::kRudStale);
  EXPECT_EQ(notice(b_context_, 0, 1), RxVerdict::kRudStale);
  urnic_rud_send write = Command(URNIC_RUD_WRITE, Tid(5, 1), 8);
  write.local_context = b_context_.value();
  write.local_pvo = b_pvo_.value;
  b_.Post(write);
  SendFrom(b_, a_);
  for (const ContextId wrong : {former, none}) {
    EXPECT_EQ(completion(wrong, Tid(5, 1)), RxVerdict::kRudUnknownContext);
    EXPECT_EQ(notice(wrong, Tid(5, 1), 1), RxVerdict::kRudUnknownContext);
  }
  for (const uint64_t tid : {Tid(4, 1), Tid(6)})
    EXPECT_EQ(completion(b_context_, tid), RxVerdict::kRudStale);
  for (const uint64_t tid : {Tid(5), Tid(5, 2), Tid(6)})
    EXPECT_EQ(notice(b_context_, tid, 1), RxVerdict::kRudStale);
  EXPECT_FALSE(b_.Poll().has_value());
  EXPECT_EQ(completion(b_context_, Tid(5)), RxVerdict::kAccept);
  EXPECT_EQ(completion(b_context_, Tid(5)), RxVerdict::kRudStale);
  EXPECT_EQ(b_.Poll()->type, URNIC_RUD_GOT_COMPLETION);
  EXPECT_FALSE(b_.Poll().has_value());
}

// --- Programs ----------------------------------------------------------------

TEST_F(HostileTest, AWriteWithPacketsThatFitIntoNoFrameIsRefused) {
  urnic_rud_send command = Command(URNIC_RUD_WRITE, Tid(1), 2000);
  command.stride = RudEnd::kSlotBytes + 1;
  command.packets = 0b11;
  const uint32_t write = a_.Post(command);
  command.opcode = URNIC_RUD_READ;
  const uint32_t read = a_.Post(command);
  EXPECT_TRUE(SendFrom(a_, b_).empty());
  EXPECT_EQ(a_.StatusOf(write), URNIC_RUD_BAD_REQUEST);
  EXPECT_EQ(a_.StatusOf(read), URNIC_RUD_BAD_REQUEST);
}

TEST_F(HostileTest, AReadIsToldOnceThoughItIsPostedAgain) {
  urnic_rud_send read = Command(URNIC_RUD_READ, Tid(1), 8);
  read.notify = URNIC_RUD_NOTIFY_TARGET;
  EXPECT_EQ(Give(Send(read)[0]), RxVerdict::kAccept);
  const auto data = SendFrom(b_, a_);
  EXPECT_EQ(a_.Receive(data[0], b_.config().address), RxVerdict::kAccept);
  // The time-out came before the program saw the completion.
  read.tid = Tid(1, 1);
  EXPECT_TRUE(Send(read).empty());
  EXPECT_EQ(a_.Poll()->type, URNIC_RUD_GOT_TRANSFER);
  EXPECT_FALSE(a_.Poll().has_value());
}

TEST_F(HostileTest, AWriteReadsNothingAfterItsRegistrationHasEnded) {
  const uint32_t index = a_.Post(Command(URNIC_RUD_WRITE, Tid(1), 4 * kStride));
  EXPECT_EQ(a_.Transmit(b_.config().address, 2).size(), 2u);
  ASSERT_TRUE(a_.tces().Deregister(testing::kRudJob, a_pvo_));
  EXPECT_TRUE(a_.Transmit(b_.config().address).empty());
  EXPECT_EQ(a_.StatusOf(index), URNIC_RUD_BAD_PVO);
  EXPECT_TRUE(a_.window().failed());
}

TEST_F(HostileTest, AFaultOfAReadDoesNotEndWhatItsOwnerHasBegun) {
  EXPECT_EQ(Give(Send(Command(URNIC_RUD_READ, Tid(1), 8))[0]),
            RxVerdict::kAccept);
  // B answers the read and writes from the same context, in one burst.
  urnic_rud_send write = Command(URNIC_RUD_WRITE, Tid(2), 8);
  write.flags = URNIC_RUD_INLINE_DATA;
  write.local_context = b_context_.value();
  write.context = a_context_.value();
  b_.Post(write);
  b_.is_gone = [&](uint64_t address) {
    return address == reinterpret_cast<uint64_t>(b_bytes_.data());
  };
  EXPECT_EQ(SendFrom(b_, a_).size(), 1u);
  EXPECT_TRUE(SendFrom(b_, a_).empty());
  EXPECT_EQ(b_.contexts().At(b_context_.number).state, ContextState::kAwaiting);
}

TEST_F(HostileTest, OneReadWithoutItsMemoryIsRefusedOnce) {
  EXPECT_EQ(Give(Send(Command(URNIC_RUD_READ, Tid(1), 3 * kStride))[0]),
            RxVerdict::kAccept);
  b_.is_gone = [](uint64_t) { return true; };
  EXPECT_TRUE(SendFrom(b_, a_).empty());
  EXPECT_EQ(SendFrom(b_, a_).size(), 1u);
}

// A program that posts all the time must not hold the RNIC.
TEST(SendFifo, ARingOfEntriesIsReadBeforeTheyAreGivenBack) {
  constexpr uint32_t kEntries = 4;
  urnic_rud_send entries[kEntries] = {};
  urnic_queue_indices indices = {};
  SendFifo fifo(entries, kEntries, &indices, nullptr, 0);
  for (int turn = 0; turn < 3; ++turn) {
    uint32_t read = 0;
    for (indices.producer = indices.consumer + 1; fifo.Waiting() != 0; ++read) {
      fifo.Finish(URNIC_RUD_BAD_REQUEST);
      ++indices.producer;
      ASSERT_LT(read, kEntries);
    }
    EXPECT_EQ(read, kEntries);
    fifo.Publish();
  }
}

TEST_F(HostileTest, WrongCommandsDoNotFillATurn) {
  for (uint32_t i = 0; i < RudEnd::kSendEntries; ++i) a_.Post({});
  EXPECT_TRUE(SendFrom(a_, b_).empty());
  EXPECT_EQ(a_.send_indices().consumer, kBurstMax);
  EXPECT_TRUE(a_.window().HasWork());
  EXPECT_TRUE(SendFrom(a_, b_).empty());
  EXPECT_FALSE(a_.window().HasWork());
}

// --- Contexts that go away ---------------------------------------------------

TEST_F(HostileTest, ARecoveryForgetsTheReadsThatWait) {
  std::vector<ContextId> contexts = {b_context_};
  for (int i = 0; i < 3; ++i) contexts.push_back(b_.Acquire());
  for (const ContextId context : contexts) {
    urnic_rud_send read = Command(URNIC_RUD_READ, Tid(1), 8);
    read.context = context.value();
    read.local_context = a_.Acquire().value();
    EXPECT_EQ(Give(Send(read)[0]), RxVerdict::kAccept);
  }
  b_.Recover();
  EXPECT_FALSE(b_.window().HasWork());
  EXPECT_TRUE(SendFrom(b_, a_).empty());
  for (uint32_t i = b_.contexts().size(); i != 0; --i) b_.Acquire();
  EXPECT_EQ(b_.contexts().free(), 0u);
}

TEST_F(HostileTest, AReadWhoseContextIsReleasedIsNotAnswered) {
  const ContextId other = b_.Acquire();
  for (const ContextId context : {b_context_, other}) {
    urnic_rud_send read = Command(URNIC_RUD_READ, Tid(1), 8);
    read.context = context.value();
    read.local_context = a_.Acquire().value();
    EXPECT_EQ(Give(Send(read)[0]), RxVerdict::kAccept);
  }
  b_.Release(b_context_);
  EXPECT_EQ(SendFrom(b_, a_).size(), 1u);
  EXPECT_FALSE(b_.window().HasWork());
}

}  // namespace
}  // namespace urnic::rud
