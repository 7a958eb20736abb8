// Lists: several writes in one packet of a transfer.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "tests/support/rud_pair.h"
#include "transport/rud/data_headers.h"

namespace urnic::testing {
namespace {

class WriteList : public RudPair {
 protected:
  struct Write {
    uint64_t pvo;
    Bytes data;
  };
  static Bytes ListOf(std::initializer_list<Write> writes) {
    Bytes list;
    for (const Write& write : writes) {
      wire::RudListEntry entry;
      entry.pvo = wire::Be<uint64_t>(write.pvo);
      entry.bytes =
          wire::Be<uint16_t>(static_cast<uint16_t>(write.data.size()));
      const auto* bytes = reinterpret_cast<const uint8_t*>(&entry);
      list.insert(list.end(), bytes, bytes + sizeof(entry));
      list.insert(list.end(), write.data.begin(), write.data.end());
    }
    return list;
  }
  urnic_rud_send ListCommand(uint64_t tid, const Bytes& list) const {
    const auto bytes = static_cast<uint32_t>(list.size());
    urnic_rud_send command = Command(URNIC_RUD_WRITE, tid, bytes);
    command.flags = URNIC_RUD_SLOT_DATA | URNIC_RUD_LIST;
    command.local_pvo = command.remote_pvo = 0;
    command.stride = static_cast<uint16_t>(bytes);
    command.packets = 1;
    return command;
  }
  // The packet of a list.
  Bytes PacketOf(uint64_t tid, const Bytes& list) {
    a_.Post(ListCommand(tid, list), list);
    const std::vector<Bytes> packets = SendFrom(a_, b_);
    EXPECT_EQ(packets.size(), 1u);
    return packets.empty() ? Bytes() : packets[0];
  }
  uint64_t At(uint64_t place) const { return b_pvo_.value + place; }
  bool Lies(uint64_t place, const Bytes& data) const {
    return std::equal(data.begin(), data.end(),
                      b_bytes_.begin() + static_cast<ptrdiff_t>(place));
  }
  bool NothingWasWritten() const {
    return std::all_of(b_bytes_.begin(), b_bytes_.end(),
                       [](uint8_t byte) { return byte == 0xee; });
  }
  uint32_t StatusOf(const urnic_rud_send& command, const Bytes& list) {
    const uint32_t index = a_.Post(command, list);
    SendFrom(a_, b_);
    return a_.StatusOf(index);
  }

  const Bytes one_ = Bytes(8, 1);
  const Bytes two_ = Bytes(3, 2);
  const Bytes three_ = Bytes(32, 3);
};

TEST_F(WriteList, EachWriteGoesToItsPlaceAndOneCompletionTellsOfAll) {
  const Bytes packet = PacketOf(
      Tid(1),
      ListOf(
          {{At(1000), one_}, {At(7), two_}, {At(3000), three_}, {At(50), {}}}));
  EXPECT_EQ(Answer(), 0u) << "not complete";
  EXPECT_EQ(Give(packet), RxVerdict::kAccept);
  EXPECT_TRUE(Lies(1000, one_));
  EXPECT_TRUE(Lies(7, two_));
  EXPECT_TRUE(Lies(3000, three_));
  EXPECT_EQ(std::count(b_bytes_.begin(), b_bytes_.end(), 0xee), 4096 - 43);
  EXPECT_EQ(Give(packet), RxVerdict::kRudDuplicate);
  EXPECT_EQ(Answer(), 1u);
  const auto got = a_.Poll();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->type, URNIC_RUD_GOT_COMPLETION);
  EXPECT_EQ(got->tid, Tid(1));
}

TEST_F(WriteList, AWriteOfNoBytesNamesNoMemory) {
  EXPECT_EQ(Give(PacketOf(Tid(1), ListOf({{0, {}}, {At(4096), {}}}))),
            RxVerdict::kAccept);
  EXPECT_EQ(Answer(), 1u);
  EXPECT_FALSE(b_.window().failed());
}

TEST_F(WriteList, AnotherAttemptWritesNothingTwice) {
  const Bytes list = ListOf({{At(0), one_}, {At(64), two_}});
  EXPECT_EQ(Give(PacketOf(Tid(1), list)), RxVerdict::kAccept);
  std::fill(b_bytes_.begin(), b_bytes_.end(), 0xee);
  EXPECT_EQ(Give(PacketOf(Tid(1, 1), list)), RxVerdict::kRudAnsweredAgain);
  EXPECT_TRUE(NothingWasWritten());
}

// As many writes as a packet may have: more than an engine executes at once.
TEST_F(WriteList, ItMayHave64Writes) {
  Bytes list;
  for (uint64_t i = 0; i < wire::kRudMaxWrites; ++i) {
    const Bytes next = ListOf({{At(i * 64), {static_cast<uint8_t>(i)}}});
    list.insert(list.end(), next.begin(), next.end());
  }
  EXPECT_EQ(Give(PacketOf(Tid(1), list)), RxVerdict::kAccept);
  for (uint64_t i = 0; i < wire::kRudMaxWrites; ++i)
    EXPECT_EQ(b_bytes_[i * 64], i);
  const Bytes next = ListOf({{At(1), {1}}});
  list.insert(list.end(), next.begin(), next.end());
  EXPECT_EQ(StatusOf(ListCommand(Tid(2), list), list), URNIC_RUD_BAD_REQUEST);
}

TEST_F(WriteList, OneThatDoesNotEndWithItsPacketIsDropped) {
  Bytes list = ListOf({{At(0), one_}, {At(64), one_}});
  const Bytes packet = PacketOf(Tid(1), list);
  constexpr size_t kLength = rud::kDataHeaderBytes + 8;
  EXPECT_EQ(Give(Forged(packet, [](uint8_t* bytes) { ++bytes[kLength + 1]; })),
            RxVerdict::kRudMalformed);
  EXPECT_EQ(Give(Forged(packet, [](uint8_t* bytes) { ++bytes[kLength]; })),
            RxVerdict::kRudMalformed);
  EXPECT_TRUE(NothingWasWritten());
  list.pop_back();
  EXPECT_EQ(StatusOf(ListCommand(Tid(2), list), list), URNIC_RUD_BAD_REQUEST);
}

TEST_F(WriteList, OneThatIsRefusedIsTheEndOfAll) {
  const uint64_t beyond = At(4090);
  EXPECT_EQ(
      Give(PacketOf(Tid(1),
                    ListOf({{At(0), one_}, {beyond, one_}, {At(64), one_}}))),
      RxVerdict::kRudAccess);
  EXPECT_TRUE(NothingWasWritten());
  EXPECT_EQ(Answer(), 1u);
  const auto got = a_.Poll();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->type, URNIC_RUD_GOT_REFUSAL);
  EXPECT_EQ(got->pvo, beyond);
}

TEST_F(WriteList, AForeignTableIsSilent) {
  const uint64_t foreign = At(0) ^ uint64_t { 1 } << 42;
  EXPECT_EQ(Give(PacketOf(Tid(1), ListOf({{At(0), one_}, {foreign, one_}}))),
            RxVerdict::kRudForeignTable);
  EXPECT_TRUE(NothingWasWritten());
  EXPECT_EQ(Answer(), 0u);
}

TEST_F(WriteList, AStaleKeyFailsTheWindow) {
  const uint64_t stale = At(0) + (uint64_t{1} << 47);
  EXPECT_EQ(Give(PacketOf(Tid(1), ListOf({{At(0), one_}, {stale, one_}}))),
            RxVerdict::kRudStaleKey);
  EXPECT_TRUE(NothingWasWritten());
  EXPECT_TRUE(b_.window().failed());
}

// A list cannot write to a context with a read of its owner, whatever memory it
// names.
TEST_F(WriteList, ItIsNoAnswerToARead) {
  urnic_rud_send read = Command(URNIC_RUD_READ, Tid(1), 18);
  read.local_context = b_context_.value();
  read.context = a_context_.value();
  read.peer = read.window = 1;
  read.notify = URNIC_RUD_NOTIFY_TARGET;
  read.local_pvo = b_pvo_.value;
  read.remote_pvo = a_pvo_.value;
  read.stride = 18;
  read.packets = 1;
  b_.Post(read);
  ASSERT_EQ(SendFrom(b_, a_).size(), 1u);
  const Bytes list = PacketOf(Tid(1), ListOf({{At(64), one_}}));
  // As if it were the answer to the read.
  EXPECT_EQ(Give(Forged(list,
                        [&](uint8_t* bytes) {
                          auto& data = *reinterpret_cast<wire::RudData*>(
                              bytes + sizeof(wire::RudBase) +
                              sizeof(wire::RudTransfer));
                          data.pvo = wire::Be<uint64_t>(b_pvo_.value);
                        })),
            RxVerdict::kRudMismatch);
  EXPECT_TRUE(NothingWasWritten());
}

TEST_F(WriteList, WhatIsRefused) {
  const Bytes list = ListOf({{At(0), Bytes(8)}});
  urnic_rud_send command = ListCommand(Tid(1), list);
  command.flags = URNIC_RUD_LIST;
  EXPECT_EQ(StatusOf(command, list), URNIC_RUD_BAD_REQUEST) << "not in a slot";
  command = ListCommand(Tid(1), list);
  command.flags |= URNIC_RUD_TO_FIFO;
  EXPECT_EQ(StatusOf(command, list), URNIC_RUD_BAD_REQUEST) << "to a FIFO";
  command = ListCommand(Tid(1), list);
  command.window = 0;
  EXPECT_EQ(StatusOf(command, list), URNIC_RUD_BAD_REQUEST) << "to a group";
  command = ListCommand(Tid(1), list);
  command.remote_pvo = At(0);
  EXPECT_EQ(StatusOf(command, list), URNIC_RUD_BAD_REQUEST)
      << "a place for all";
  command = ListCommand(Tid(1), list);
  command.opcode = URNIC_RUD_READ;
  EXPECT_EQ(StatusOf(command, list), URNIC_RUD_BAD_REQUEST) << "not a write";
  EXPECT_EQ(StatusOf(ListCommand(Tid(1), list), list), URNIC_RUD_SENT);
}

}  // namespace
}  // namespace urnic::testing
