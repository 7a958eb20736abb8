// A window (the manager) tells another (the source) to send to a third one (the
// target).

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/support/rud_pair.h"

namespace urnic::rud {
namespace {

using testing::Bytes;
using testing::RudEnd;
using testing::RudPairConfig;
using testing::Tid;
using wire::Be;

constexpr uint16_t kStride = testing::kRudStride;
constexpr uint32_t kManager = 1;
constexpr uint32_t kSource = 2;
constexpr uint32_t kTarget = 3;

class ThirdPartyTest : public ::testing::Test {
 protected:
  using Sent = std::vector<Bytes>;

  struct Node {
    explicit Node(uint32_t number)
        : rnic(RudPairConfig(number)),
          bytes(4096, static_cast<uint8_t>(number)),
          pvo(rnic.tces()
                  .Register(testing::kRudJob,
                            reinterpret_cast<uint64_t>(bytes.data()),
                            bytes.size(), testing::kRudAll, PageSize::k4K)
                  .value()),
          context(rnic.Acquire()) {
      // Each window has its own numbers for its peers.
      for (const uint32_t peer : {kManager, kSource, kTarget}) {
        if (peer != number)
          rnic.peers[PeerOf(number, peer)] = {RudPairConfig(peer).address,
                                              peer};
      }
    }
    RudEnd rnic;
    Bytes bytes;
    Pvo pvo;
    ContextId context;
  };
  static uint32_t PeerOf(uint32_t node, uint32_t peer) {
    return node * 10 + peer;
  }

  ThirdPartyTest() : manager_(kManager), source_(kSource), target_(kTarget) {
    std::iota(source_.bytes.begin(), source_.bytes.end(), uint8_t{9});
  }

  urnic_rud_send Command(uint64_t tid, uint32_t bytes) const {
    urnic_rud_send command = {};
    command.opcode = URNIC_RUD_THIRD_READ;
    command.notify = URNIC_RUD_NOTIFY_THIRD;
    command.path = 5;
    command.peer = PeerOf(kManager, kSource);
    command.window = kSource;
    command.context = source_.context.value();
    command.local_context = manager_.context.value();
    command.tid = tid;
    command.local_pvo = target_.pvo.value;
    command.remote_pvo = source_.pvo.value;
    command.bytes = bytes;
    command.stride = kStride;
    command.packets = wire::RudAllPackets(wire::RudPackets(bytes, kStride));
    command.target_peer = PeerOf(kManager, kTarget);
    command.target_window = kTarget;
    command.target_context = target_.context.value();
    return command;
  }
  urnic_rud_send StateRequest(uint64_t tid) const {
    urnic_rud_send ask = {};
    ask.opcode = URNIC_RUD_ASK_STATE;
    ask.peer = PeerOf(kManager, kTarget);
    ask.window = kTarget;
    ask.context = target_.context.value();
    ask.local_context = manager_.context.value();
    ask.tid = tid;
    return ask;
  }
  static Sent SentBy(Node& node) {
    Sent out;
    for (RudEnd::Sent& sent : node.rnic.Transmit())
      out.push_back(std::move(sent.bytes));
    return out;
  }
  Sent Post(const urnic_rud_send& command) {
    manager_.rnic.Post(command);
    return SentBy(manager_);
  }
  static RxVerdict Give(Node& to, const Node& from, const Bytes& packet) {
    return to.rnic.Receive(packet, from.rnic.config().address);
  }
  // Posts the manager's request. Returns the data that the source sends for it.
  Sent DataFor(const urnic_rud_send& command) {
    for (const Bytes& request : Post(command))
      EXPECT_EQ(Give(source_, manager_, request), RxVerdict::kAccept);
    return SentBy(source_);
  }
  // Delivers the target's answers. Returns how many packets were accepted.
  size_t Answer() {
    size_t accepted = 0;
    for (const RudEnd::Sent& sent : target_.rnic.Transmit()) {
      Node& to = sent.peer == PeerOf(kTarget, kManager) ? manager_ : source_;
      accepted += Give(to, target_, sent.bytes) == RxVerdict::kAccept;
    }
    return accepted;
  }
  bool Arrived(uint32_t bytes) const {
    return std::equal(source_.bytes.begin(), source_.bytes.begin() + bytes,
                      target_.bytes.begin()) &&
           target_.bytes[bytes] == kTarget;
  }
  template <typename Change>
  static Bytes Forged(Bytes packet, const Node& from, const Node& to,
                      Change&& change) {
    change(packet.data());
    const size_t body = packet.size() - wire::kRudCrcBytes;
    wire::Crc32c crc = wire::RudCrcOfAddresses(from.rnic.config().address,
                                               to.rnic.config().address);
    crc.Add(std::span(packet).first(body)).Store(&packet[body]);
    return packet;
  }

  Node manager_;
  Node source_;
  Node target_;
};

TEST_F(ThirdPartyTest, TheManagerIsToldWhenAllHasArrivedAtTheTarget) {
  const Sent data = DataFor(Command(Tid(1), 2 * kStride + 7));
  ASSERT_EQ(data.size(), 3u);
  for (const size_t i : {2, 0}) {
    EXPECT_EQ(Give(target_, source_, data[i]), RxVerdict::kAccept);
    EXPECT_EQ(Answer(), 0u);
  }
  EXPECT_EQ(Give(target_, source_, data[1]), RxVerdict::kAccept);
  EXPECT_TRUE(Arrived(2 * kStride + 7));
  EXPECT_EQ(Answer(), 1u);
  const auto got = manager_.rnic.Poll();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->type, URNIC_RUD_GOT_COMPLETION);
  EXPECT_EQ(got->context, manager_.context.value());
  EXPECT_EQ(got->tid, Tid(1));
  EXPECT_EQ(got->peer, PeerOf(kManager, kTarget));
  EXPECT_EQ(got->source_window, kTarget);
  EXPECT_EQ(got->path, 5);
  EXPECT_FALSE(source_.rnic.Poll().has_value());
  EXPECT_FALSE(target_.rnic.Poll().has_value());
  EXPECT_EQ(Give(target_, source_, data[1]), RxVerdict::kRudDuplicate);
}

TEST_F(ThirdPartyTest, AllThreeAreToldWhoWantToKnow) {
  urnic_rud_send command = Command(Tid(1), 8);
  command.notify |= URNIC_RUD_NOTIFY_SOURCE | URNIC_RUD_NOTIFY_TARGET;
  EXPECT_EQ(Give(target_, source_, DataFor(command)[0]), RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 2u);
  EXPECT_EQ(manager_.rnic.Poll()->type, URNIC_RUD_GOT_COMPLETION);
  const auto source = source_.rnic.Poll();
  ASSERT_TRUE(source.has_value());
  EXPECT_EQ(source->type, URNIC_RUD_GOT_COMPLETION);
  EXPECT_EQ(source->context, source_.context.value());
  const auto target = target_.rnic.Poll();
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->type, URNIC_RUD_GOT_TRANSFER);
  EXPECT_EQ(target->peer, PeerOf(kTarget, kSource));
}

TEST_F(ThirdPartyTest, NobodyIsToldWhoDoesNotWantToKnow) {
  urnic_rud_send command = Command(Tid(1), 8);
  command.notify = 0;
  EXPECT_EQ(Give(target_, source_, DataFor(command)[0]), RxVerdict::kAccept);
  EXPECT_TRUE(Arrived(8));
  EXPECT_EQ(Answer(), 0u);
}

// --- Losses ------------------------------------------------------------------

TEST_F(ThirdPartyTest, WhenTheCompletionIsLostItIsToldAgainAndNothingIsPlaced) {
  EXPECT_EQ(Give(target_, source_, DataFor(Command(Tid(1), 8))[0]),
            RxVerdict::kAccept);
  SentBy(target_);  // lost
  target_.bytes.assign(4096, kTarget);
  EXPECT_EQ(Give(target_, source_, DataFor(Command(Tid(1, 1), 8))[0]),
            RxVerdict::kRudAnsweredAgain);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_EQ(manager_.rnic.Poll()->tid, Tid(1, 1));
  EXPECT_TRUE(Arrived(0));
}

TEST_F(ThirdPartyTest, TheManagerAsksTheTargetAndSendsForTheRestOnly) {
  const Sent data = DataFor(Command(Tid(1), 3 * kStride));
  EXPECT_EQ(Give(target_, source_, data[1]), RxVerdict::kAccept);
  EXPECT_EQ(Give(target_, manager_, Post(StateRequest(Tid(1, 1)))[0]),
            RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 1u);
  const auto state = manager_.rnic.Poll();
  EXPECT_EQ(state->type, URNIC_RUD_GOT_STATE);
  EXPECT_EQ(state->arrived, 0b010u);
  EXPECT_EQ(Give(target_, source_, data[0]), RxVerdict::kRudStale);
  urnic_rud_send rest = Command(Tid(1, 2), 3 * kStride);
  rest.packets = 0b101;
  for (const Bytes& packet : DataFor(rest))
    EXPECT_EQ(Give(target_, source_, packet), RxVerdict::kAccept);
  EXPECT_TRUE(Arrived(3 * kStride));
  // Only to the manager, since the source is not to be notified.
  EXPECT_EQ(Answer(), 1u);
  EXPECT_EQ(manager_.rnic.Poll()->type, URNIC_RUD_GOT_COMPLETION);
}

TEST_F(ThirdPartyTest, AManagerThatAsksAfterAllHasArrivedGetsTheCompletion) {
  EXPECT_EQ(Give(target_, source_, DataFor(Command(Tid(1), 8))[0]),
            RxVerdict::kAccept);
  SentBy(target_);  // lost
  EXPECT_EQ(Give(target_, manager_, Post(StateRequest(Tid(1, 1)))[0]),
            RxVerdict::kRudAnsweredAgain);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_EQ(manager_.rnic.Poll()->type, URNIC_RUD_GOT_COMPLETION);
}

TEST_F(ThirdPartyTest, AStateRequestBeforeAnyDataIsAnswered) {
  const Sent data = DataFor(Command(Tid(1), 8));
  EXPECT_EQ(Give(target_, manager_, Post(StateRequest(Tid(1, 1)))[0]),
            RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_EQ(manager_.rnic.Poll()->type, URNIC_RUD_GOT_STATE);
  EXPECT_EQ(Give(target_, source_, data[0]), RxVerdict::kRudStale);
  EXPECT_EQ(Give(target_, source_, DataFor(Command(Tid(1, 2), 8))[0]),
            RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_EQ(manager_.rnic.Poll()->type, URNIC_RUD_GOT_COMPLETION);
}

TEST_F(ThirdPartyTest, ARequestIsServedOnce) {
  const Bytes request = Post(Command(Tid(1), 8))[0];
  EXPECT_EQ(Give(source_, manager_, request), RxVerdict::kAccept);
  EXPECT_EQ(Give(source_, manager_, request), RxVerdict::kRudBusy);
  EXPECT_EQ(SentBy(source_).size(), 1u);
  EXPECT_EQ(Give(source_, manager_, request), RxVerdict::kRudStale);
}

// --- Refusals ----------------------------------------------------------------

TEST_F(ThirdPartyTest, TheManagerLearnsThatTheSourceMayNotRead) {
  urnic_rud_send command = Command(Tid(1), 8);
  command.remote_pvo += 4095;
  EXPECT_EQ(Give(source_, manager_, Post(command)[0]), RxVerdict::kRudAccess);
  const auto sent = source_.rnic.Transmit();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].peer, PeerOf(kSource, kManager));
  EXPECT_EQ(Give(manager_, source_, sent[0].bytes), RxVerdict::kAccept);
  const auto got = manager_.rnic.Poll();
  EXPECT_EQ(got->type, URNIC_RUD_GOT_REFUSAL);
  EXPECT_EQ(got->pvo, source_.pvo.value + 4095);
}

TEST_F(ThirdPartyTest, TheManagerLearnsThatTheSourcesMemoryIsGone) {
  EXPECT_EQ(Give(source_, manager_, Post(Command(Tid(1), 8))[0]),
            RxVerdict::kAccept);
  source_.rnic.is_gone = [](uint64_t) { return true; };
  EXPECT_TRUE(SentBy(source_).empty());
  const auto sent = source_.rnic.Transmit();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].peer, PeerOf(kSource, kManager));
  EXPECT_EQ(Give(manager_, source_, sent[0].bytes), RxVerdict::kAccept);
  EXPECT_EQ(manager_.rnic.Poll()->type, URNIC_RUD_GOT_REFUSAL);
}

TEST_F(ThirdPartyTest, AllThreeLearnThatTheTargetMayNotBeWritten) {
  urnic_rud_send command = Command(Tid(1), 8);
  command.local_pvo += 4095;
  command.notify |= URNIC_RUD_NOTIFY_SOURCE;
  EXPECT_EQ(Give(target_, source_, DataFor(command)[0]), RxVerdict::kRudAccess);
  EXPECT_EQ(Answer(), 2u);
  for (Node* node : {&manager_, &source_, &target_})
    EXPECT_EQ(node->rnic.Poll()->type, URNIC_RUD_GOT_REFUSAL);
  // Another attempt gets the notices again, since they may have been lost.
  command.tid = Tid(1, 1);
  EXPECT_EQ(Give(target_, source_, DataFor(command)[0]), RxVerdict::kRudEnded);
  EXPECT_EQ(Answer(), 2u);
}

// --- Who may take part -------------------------------------------------------

TEST_F(ThirdPartyTest, TheTargetMustBeAPeerOfTheSource) {
  const Bytes request = Post(Command(Tid(1), 8))[0];
  source_.rnic.peers.erase(PeerOf(kSource, kTarget));
  EXPECT_EQ(Give(source_, manager_, request), RxVerdict::kRudUnknownThird);
  EXPECT_TRUE(SentBy(source_).empty());
}

// The manager must not use the source to write where it could not write itself.
TEST_F(ThirdPartyTest, TheManagerMustBeAPeerOfTheTarget) {
  uint64_t transfer = 0;
  for (const uint8_t wishes : {uint8_t{URNIC_RUD_NOTIFY_THIRD}, uint8_t{0}}) {
    urnic_rud_send command = Command(Tid(++transfer), 8);
    command.notify = wishes;
    const Bytes data = DataFor(command)[0];
    target_.rnic.peers.erase(PeerOf(kTarget, kManager));
    EXPECT_EQ(Give(target_, source_, data), RxVerdict::kRudUnknownThird);
  }
  EXPECT_TRUE(Arrived(0));
}

TEST_F(ThirdPartyTest, JobKeyAndContextAreCheckedAsForAWrite) {
  const Bytes data = DataFor(Command(Tid(1), 8))[0];
  const auto with = [&](auto change) {
    return Give(
        target_, source_, Forged(data, source_, target_, [&](uint8_t* bytes) {
          change(*reinterpret_cast<wire::RudBase*>(bytes),
                 *reinterpret_cast<wire::RudTransfer*>(bytes +
                                                       sizeof(wire::RudBase)));
        }));
  };
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
  EXPECT_TRUE(Arrived(0));
  EXPECT_EQ(Give(target_, source_, data), RxVerdict::kAccept);
}

// The target has a read from the source with the same tid, into the same
// memory.
TEST_F(ThirdPartyTest, ThirdPartyDataDoesNotAnswerARead) {
  const Bytes data = DataFor(Command(Tid(1), 8))[0];
  urnic_rud_send read = Command(Tid(1), 8);
  read.opcode = URNIC_RUD_READ;
  read.notify = URNIC_RUD_NOTIFY_TARGET;
  read.peer = PeerOf(kTarget, kSource);
  read.local_context = target_.context.value();
  target_.rnic.Post(read);
  EXPECT_EQ(SentBy(target_).size(), 1u);
  EXPECT_EQ(Give(target_, source_, data), RxVerdict::kRudBusy);
  EXPECT_FALSE(target_.rnic.Poll().has_value());
}

// A packet without a third header cannot have a third party notified.
TEST_F(ThirdPartyTest, AWriteTellsNoThirdParty) {
  EXPECT_EQ(Give(target_, source_, DataFor(Command(Tid(1), 8))[0]),
            RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 1u);
  urnic_rud_send write = Command(Tid(2), 8);
  write.opcode = URNIC_RUD_WRITE;
  write.notify = 0;
  write.context = target_.context.value();
  write.local_context = source_.rnic.Acquire().value();
  write.local_pvo = source_.pvo.value;
  write.remote_pvo = target_.pvo.value;
  write.peer = PeerOf(kSource, kTarget);
  source_.rnic.Post(write);
  const Bytes packet =
      Forged(SentBy(source_)[0], source_, target_, [](uint8_t* bytes) {
        reinterpret_cast<wire::RudBase*>(bytes)->notify = wire::kRudNotifyThird;
      });
  EXPECT_EQ(Give(target_, source_, packet), RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 0u);
}

TEST_F(ThirdPartyTest, AReadAfterwardsGoesToWhoAsks) {
  DataFor(Command(Tid(1), 8));
  urnic_rud_send read = Command(Tid(2), 8);
  read.opcode = URNIC_RUD_READ;
  read.notify = 0;
  read.local_pvo = manager_.pvo.value;
  EXPECT_EQ(Give(source_, manager_, Post(read)[0]), RxVerdict::kAccept);
  const auto sent = source_.rnic.Transmit();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].peer, PeerOf(kSource, kManager));
  EXPECT_EQ(Give(manager_, source_, sent[0].bytes), RxVerdict::kAccept);
  EXPECT_TRUE(std::equal(source_.bytes.begin(), source_.bytes.begin() + 8,
                         manager_.bytes.begin()));
}

TEST_F(ThirdPartyTest, AWrongCommandSaysWhatIsWrong) {
  const auto status = [&](auto change) {
    urnic_rud_send command = Command(Tid(1), 8);
    change(command);
    const uint32_t index = manager_.rnic.Post(command);
    EXPECT_TRUE(SentBy(manager_).empty());
    return manager_.rnic.StatusOf(index);
  };
  using Send = urnic_rud_send;
  EXPECT_EQ(status([](Send& c) { c.target_peer = 0; }), URNIC_RUD_BAD_REQUEST);
  EXPECT_EQ(status([](Send& c) { c.flags = URNIC_RUD_TO_FIFO; }),
            URNIC_RUD_BAD_REQUEST);
  EXPECT_EQ(status([](Send& c) { c.packets = 2; }), URNIC_RUD_BAD_REQUEST);
  EXPECT_EQ(status([](Send& c) { c.notify = 8; }), URNIC_RUD_BAD_REQUEST);
  EXPECT_EQ(status([](Send& c) { c.local_context += 50; }),
            URNIC_RUD_BAD_CONTEXT);
  EXPECT_EQ(status([](Send& c) { c.tid = 0; }), URNIC_RUD_OLD_TID);
  EXPECT_EQ(status([](Send& c) {
              c.opcode = URNIC_RUD_READ;
              c.notify = URNIC_RUD_NOTIFY_THIRD;
            }),
            URNIC_RUD_BAD_REQUEST);
  EXPECT_FALSE(manager_.rnic.window().failed());
}

}  // namespace
}  // namespace urnic::rud
