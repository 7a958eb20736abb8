// A window writes to a group of windows (document C: broadcast and multicast).

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "tests/support/rud_pair.h"

namespace urnic::testing {
namespace {

constexpr uint32_t kSource = 1;
constexpr uint32_t kMembers = 3;
constexpr uint32_t kGroupPeer = 99;
constexpr uint32_t kGroupKey = 0x6e0;
constexpr uint32_t kBytes = 5 * kRudStride;
constexpr uint64_t kOffset = 512;  // in the group's memory

wire::Gid GroupAddress() { return wire::Gid::FromIpv4(0xef010203); }

class GroupTest : public ::testing::Test {
 protected:
  struct Node {
    explicit Node(uint32_t number)
        : rnic(RudPairConfig(number)),
          bytes(4096, 0xee),
          pvo(rnic.tces()
                  .Register(kRudJob, reinterpret_cast<uint64_t>(bytes.data()),
                            bytes.size(), kRudAll, rud::PageSize::k4K)
                  .value()),
          context(rnic.Acquire()) {}
    RudEnd rnic;
    Bytes bytes;
    rud::Pvo pvo;
    rud::ContextId context;
  };

  GroupTest() : source_(kSource) {
    std::iota(source_.bytes.begin(), source_.bytes.end(), uint8_t{1});
    source_.rnic.peers[kGroupPeer] = {GroupAddress(), 0, kGroupKey};
    for (uint32_t i = 0; i < kMembers; ++i) {
      const uint32_t number = 10 + i;
      members_.push_back(std::make_unique<Node>(number));
      Node& member = *members_.back();
      source_.rnic.peers[number] = {member.rnic.config().address, number, {}};
      member.rnic.peers[kSource] = {source_.rnic.config().address, kSource, {}};
      // Members have different numbers of contexts, and memory at different
      // places.
      for (uint32_t skipped = 0; skipped < i; ++skipped) member.rnic.Acquire();
      member.context = member.rnic.Acquire();
      member.rnic.group = {
          GroupAddress(),
          {kGroupKey, {member.context}, {member.pvo.value + i * 256}, 2048}};
    }
  }

  urnic_rud_send Command(uint64_t tid) const {
    urnic_rud_send command = {};
    command.opcode = URNIC_RUD_WRITE;
    command.notify = URNIC_RUD_NOTIFY_SOURCE | URNIC_RUD_NOTIFY_TARGET;
    command.peer = kGroupPeer;
    command.context = 0;
    command.local_context = source_.context.value();
    command.tid = tid;
    command.local_pvo = source_.pvo.value;
    command.remote_pvo = kOffset;
    command.bytes = kBytes;
    command.stride = kRudStride;
    command.packets = wire::RudAllPackets(wire::RudPackets(kBytes, kRudStride));
    return command;
  }
  // The same write for one member.
  urnic_rud_send CommandFor(uint32_t member, uint64_t tid) const {
    urnic_rud_send command = Command(tid);
    command.peer = command.window = 10 + member;
    command.context = members_[member]->context.value();
    command.remote_pvo = PlaceAt(member).value;
    return command;
  }
  rud::Pvo PlaceAt(uint32_t member) const {
    return {members_[member]->pvo.value + member * 256 + kOffset};
  }
  std::vector<Bytes> Post(const urnic_rud_send& command) {
    source_.rnic.Post(command);
    std::vector<Bytes> out;
    for (RudEnd::Sent& sent : source_.rnic.Transmit())
      out.push_back(std::move(sent.bytes));
    return out;
  }
  RxVerdict Give(uint32_t member, const Bytes& packet) {
    return members_[member]->rnic.Receive(packet, RudPairConfig(1).address);
  }
  // Delivers the member's answers to the source. Returns the verdicts.
  std::vector<RxVerdict> Answer(uint32_t member) {
    std::vector<RxVerdict> out;
    for (const RudEnd::Sent& sent : members_[member]->rnic.Transmit()) {
      EXPECT_EQ(sent.peer, kSource);
      out.push_back(source_.rnic.Receive(
          sent.bytes, members_[member]->rnic.config().address));
    }
    return out;
  }
  // A member uses the context from which the source has written to the group.
  urnic_rud_send CommandToSource(uint8_t opcode, uint64_t tid) {
    urnic_rud_send command = {};
    command.opcode = opcode;
    command.peer = command.window = kSource;
    command.context = source_.context.value();
    command.local_context = members_[0]->context.value();
    command.tid = tid;
    command.local_pvo = members_[0]->pvo.value;
    command.remote_pvo = source_.pvo.value;
    command.bytes = command.stride = 64;
    command.packets = 1;
    return command;
  }
  RxVerdict PostToSource(const urnic_rud_send& command) {
    RudEnd& member = members_[0]->rnic;
    member.Post(command);
    const std::vector<RudEnd::Sent> sent = member.Transmit();
    return source_.rnic.Receive(sent.back().bytes, member.config().address);
  }
  // Expects that a write to one member is counted.
  void ExpectCounted(uint64_t tid) {
    constexpr uint8_t kCounter = 3;
    source_.rnic.Transmit();
    urnic_rud_send write = CommandFor(0, tid);
    write.context = members_[0]->rnic.Acquire().value();
    write.counter = kCounter;
    for (const Bytes& packet : Post(write))
      EXPECT_EQ(Give(0, packet), RxVerdict::kAccept);
    EXPECT_EQ(Answer(0), std::vector{RxVerdict::kAccept});
    EXPECT_EQ(source_.rnic.Poll()->type, URNIC_RUD_GOT_COMPLETION);
    urnic_rud_send ask = {};
    ask.opcode = URNIC_RUD_ASK_COUNTER;
    ask.counter = kCounter;
    Post(ask);
    EXPECT_EQ(source_.rnic.Poll()->value, 1u);
  }
  bool HasAll(uint32_t member) const {
    const Bytes& bytes = members_[member]->bytes;
    const auto at = static_cast<ptrdiff_t>(member * 256 + kOffset);
    return std::equal(source_.bytes.begin(), source_.bytes.begin() + kBytes,
                      bytes.begin() + at) &&
           std::count(bytes.begin(), bytes.begin() + at, 0xee) == at &&
           bytes[static_cast<size_t>(at) + kBytes] == 0xee;
  }

  Node source_;
  std::vector<std::unique_ptr<Node>> members_;
};

TEST_F(GroupTest, AllMembersGetTheBytesAndAnswer) {
  const std::vector<Bytes> packets = Post(Command(Tid(1)));
  ASSERT_EQ(packets.size(), 5u);
  for (uint32_t member = 0; member < kMembers; ++member) {
    for (const Bytes& packet : packets)
      EXPECT_EQ(Give(member, packet), RxVerdict::kAccept);
    EXPECT_TRUE(HasAll(member)) << member;
    const auto told = members_[member]->rnic.Poll();
    ASSERT_TRUE(told.has_value());
    EXPECT_EQ(told->type, URNIC_RUD_GOT_TRANSFER);
    EXPECT_EQ(told->context, members_[member]->context.value());
    EXPECT_EQ(Answer(member), std::vector{RxVerdict::kAccept});
    const auto done = source_.rnic.Poll();
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->type, URNIC_RUD_GOT_COMPLETION);
    EXPECT_EQ(done->peer, 10 + member);
    EXPECT_EQ(done->tid, Tid(1));
  }
}

// The document's selective retry.
TEST_F(GroupTest, WhatAMemberHasMissedIsSentToItAlone) {
  const std::vector<Bytes> packets = Post(Command(Tid(1)));
  for (uint32_t member = 0; member < kMembers; ++member) {
    for (uint32_t i = 0; i < packets.size(); ++i) {
      if (member != 0 && i % member == 0) continue;
      EXPECT_EQ(Give(member, packets[i]), RxVerdict::kAccept);
    }
  }
  EXPECT_EQ(Answer(0), std::vector{RxVerdict::kAccept});
  EXPECT_EQ(source_.rnic.Poll()->peer, 10u);
  uint8_t attempt = 0;
  for (uint32_t member = 1; member < kMembers; ++member) {
    urnic_rud_send ask = {};
    ask.opcode = URNIC_RUD_ASK_STATE;
    ask.peer = ask.window = 10 + member;
    ask.context = members_[member]->context.value();
    ask.local_context = source_.context.value();
    ask.tid = Tid(1, ++attempt);
    EXPECT_EQ(Give(member, Post(ask)[0]), RxVerdict::kAccept);
    EXPECT_EQ(Give(member, packets[0]), RxVerdict::kRudStale);
  }
  // The answer of the first arrives after the second was asked.
  for (uint32_t member = 1; member < kMembers; ++member) {
    EXPECT_EQ(Answer(member), std::vector{RxVerdict::kAccept});
    const auto state = source_.rnic.Poll();
    ASSERT_TRUE(state.has_value());
    ASSERT_EQ(state->type, URNIC_RUD_GOT_STATE);
    EXPECT_EQ(state->peer, 10 + member);
    // The member still places packets of this attempt and of later ones.
    EXPECT_EQ(state->tid, Tid(1, static_cast<uint8_t>(member)));
    urnic_rud_send again = CommandFor(member, Tid(1, ++attempt));
    again.packets &= ~state->arrived;
    EXPECT_NE(again.packets, 0u);
    for (const Bytes& packet : Post(again))
      EXPECT_EQ(Give(member, packet), RxVerdict::kAccept);
    EXPECT_TRUE(HasAll(member)) << member;
    EXPECT_EQ(Answer(member), std::vector{RxVerdict::kAccept});
    EXPECT_EQ(source_.rnic.Poll()->peer, 10 + member);
  }
}

TEST_F(GroupTest, AMemberThatRefusesEndsNothingForOthers) {
  members_[0]->rnic.group->as.bytes = kOffset + kBytes - 1;
  const std::vector<Bytes> packets = Post(Command(Tid(1)));
  for (uint32_t i = 0; i < packets.size(); ++i)
    EXPECT_EQ(Give(0, packets[i]), i + 1 < packets.size()
                                       ? RxVerdict::kAccept
                                       : RxVerdict::kRudAccess);
  Answer(0);
  const auto refusal = source_.rnic.Poll();
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->type, URNIC_RUD_GOT_REFUSAL);
  EXPECT_EQ(refusal->peer, 10u);
  for (const Bytes& packet : packets)
    EXPECT_EQ(Give(1, packet), RxVerdict::kAccept);
  Answer(1);
  EXPECT_EQ(source_.rnic.Poll()->type, URNIC_RUD_GOT_COMPLETION);
}

// Document C: nodes whose contexts are not defined discard the packets.
TEST_F(GroupTest, WhoHasNoSuchContextGetsNothing) {
  members_[1]->rnic.group->as.contexts.clear();
  const std::vector<Bytes> packets = Post(Command(Tid(1)));
  EXPECT_EQ(Give(1, packets[0]), RxVerdict::kRudUnknownContext);
  members_[2]->rnic.Release(members_[2]->context);
  EXPECT_EQ(Give(2, packets[0]), RxVerdict::kRudUnknownContext);
}

TEST_F(GroupTest, TheKeyIsThatOfTheGroup) {
  members_[0]->rnic.group->as.key ^= 1;
  EXPECT_EQ(Give(0, Post(Command(Tid(1)))[0]), RxVerdict::kRudWrongKey);
}

// An offset that wraps must not reach another table.
TEST_F(GroupTest, AnOffsetThatOverflowsIsRefused) {
  urnic_rud_send command = Command(Tid(1));
  command.remote_pvo = 0 - members_[0]->pvo.value;
  command.bytes = 8;
  command.packets = 1;
  EXPECT_EQ(Give(0, Post(command)[0]), RxVerdict::kRudAccess);
}

TEST_F(GroupTest, PacketsOfFifoModeComeToAll) {
  urnic_rud_send command = {};
  command.opcode = URNIC_RUD_PACKET;
  command.flags = URNIC_RUD_INLINE_DATA;
  command.peer = kGroupPeer;
  command.bytes = 5;
  std::copy_n("hello", 5, command.data);
  const Bytes packet = Post(command)[0];
  for (uint32_t member = 0; member < kMembers; ++member) {
    EXPECT_EQ(Give(member, packet), RxVerdict::kAccept);
    EXPECT_EQ(members_[member]->rnic.Poll()->type, URNIC_RUD_GOT_PACKET);
  }
}

TEST_F(GroupTest, NobodyAsksAGroup) {
  for (const uint8_t opcode :
       {URNIC_RUD_READ, URNIC_RUD_ASK_STATE, URNIC_RUD_THIRD_READ}) {
    urnic_rud_send command = Command(Tid(1));
    command.opcode = opcode;
    command.notify = 0;
    const uint32_t index = source_.rnic.Post(command);
    EXPECT_TRUE(source_.rnic.Transmit().empty());
    EXPECT_EQ(source_.rnic.StatusOf(index), URNIC_RUD_BAD_REQUEST) << opcode;
  }
  urnic_rud_send counted = Command(Tid(1));
  counted.counter = 1;
  // The field of the packet has 24 bits, so this would also be a group.
  urnic_rud_send disguised = Command(Tid(1));
  disguised.window = wire::kRudWindowMask + 1;
  for (const urnic_rud_send& command : {counted, disguised}) {
    const uint32_t index = source_.rnic.Post(command);
    EXPECT_TRUE(source_.rnic.Transmit().empty());
    EXPECT_EQ(source_.rnic.StatusOf(index), URNIC_RUD_BAD_REQUEST);
  }
  // A peer that ignores this rule.
  Bytes packet = Post(Command(Tid(2)))[0];
  reinterpret_cast<wire::RudBase*>(packet.data())
      ->SetType(wire::RudType::kStateRequest);
  packet.resize(
      wire::RudHeaderBytes(static_cast<uint8_t>(wire::RudType::kStateRequest)) +
      wire::kRudCrcBytes);
  reinterpret_cast<wire::RudBase*>(packet.data())->payload_bytes =
      wire::Be<uint16_t>(0);
  const size_t body = packet.size() - wire::kRudCrcBytes;
  wire::Crc32c crc =
      wire::RudCrcOfAddresses(RudPairConfig(1).address, GroupAddress());
  crc.Add(std::span(packet).first(body)).Store(&packet[body]);
  EXPECT_EQ(Give(0, packet), RxVerdict::kRudNotForGroup);
}

// A write to one member that continues a write to the group belongs to that
// write.
TEST_F(GroupTest, ARetryIsNotCountedEither) {
  Post(Command(Tid(1)));
  urnic_rud_send retry = CommandFor(0, Tid(1, 1));
  retry.counter = 3;
  for (const Bytes& packet : Post(retry))
    EXPECT_EQ(Give(0, packet), RxVerdict::kAccept);
  EXPECT_EQ(Answer(0), std::vector{RxVerdict::kAccept});
  EXPECT_EQ(source_.rnic.Poll()->type, URNIC_RUD_GOT_COMPLETION);
  urnic_rud_send ask = {};
  ask.opcode = URNIC_RUD_ASK_COUNTER;
  ask.counter = 3;
  Post(ask);
  EXPECT_EQ(source_.rnic.Poll()->value, 0u);
}

// A transfer that a peer begins on the context has another number, so it does
// not belong to the write to the group.
TEST_F(GroupTest, AReadThatIsRefusedIsNotOfTheGroup) {
  urnic_rud_send command = Command(Tid(1));
  command.notify = 0;
  Post(command);
  urnic_rud_send read = CommandToSource(URNIC_RUD_READ, Tid(2));
  read.remote_pvo += source_.bytes.size() - 1;
  EXPECT_EQ(PostToSource(read), RxVerdict::kRudAccess);
  ExpectCounted(Tid(2, 1));
}

TEST_F(GroupTest, AStateRequestOfAnotherTransferIsNotOfTheGroup) {
  urnic_rud_send command = Command(Tid(1));
  command.notify = 0;
  Post(command);
  urnic_rud_send lost = CommandToSource(URNIC_RUD_WRITE, Tid(2));
  lost.notify = URNIC_RUD_NOTIFY_SOURCE;
  members_[0]->rnic.Post(lost);
  urnic_rud_send ask = CommandToSource(URNIC_RUD_ASK_STATE, Tid(2, 1));
  EXPECT_EQ(PostToSource(ask), RxVerdict::kAccept);
  ExpectCounted(Tid(2, 2));
}

TEST_F(GroupTest, TheContextWaitsUntilItHasAnotherTransfer) {
  const std::vector<Bytes> packets = Post(Command(Tid(1)));
  for (const Bytes& packet : packets)
    EXPECT_EQ(Give(0, packet), RxVerdict::kAccept);
  for (const Bytes& packet : packets)
    EXPECT_EQ(Give(1, packet), RxVerdict::kAccept);
  EXPECT_EQ(Answer(0), std::vector{RxVerdict::kAccept});
  Post(Command(Tid(2)));
  EXPECT_EQ(Answer(1), std::vector{RxVerdict::kRudStale});
}

}  // namespace
}  // namespace urnic::testing
