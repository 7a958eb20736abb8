// Half RDMA (document C): one end has memory, the other a FIFO.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/rud_pair.h"

namespace urnic::testing {
namespace {

class HalfRdma : public RudPair {
 protected:
  static constexpr uint32_t kPackets = 3;
  static constexpr uint32_t kBytes = kPackets * kRudStride;

  // Packet `number` of a transfer, from a slot to this place of B's memory.
  urnic_rud_send Part(uint64_t tid, uint32_t number, uint64_t place) const {
    urnic_rud_send command = Command(URNIC_RUD_WRITE, tid, kBytes);
    command.flags = URNIC_RUD_SLOT_DATA;
    command.local_pvo = 0;
    command.remote_pvo = b_pvo_.value + place;
    command.packets = uint64_t{1} << number;
    return command;
  }
  static Bytes Payload(uint32_t number) {
    return Bytes(kRudStride, static_cast<uint8_t>(0xa0 + number));
  }
  bool Lies(uint32_t number, uint64_t place) const {
    const Bytes payload = Payload(number);
    return std::equal(payload.begin(), payload.end(),
                      b_bytes_.begin() + static_cast<ptrdiff_t>(place));
  }
  uint32_t StatusOf(const urnic_rud_send& command) {
    const uint32_t index = a_.Post(command, Payload(0));
    SendFrom(a_, b_);
    return a_.StatusOf(index);
  }
};

TEST_F(HalfRdma, SlotsAreWrittenToScatteredMemoryAsOneTransfer) {
  constexpr uint64_t kPlaces[kPackets] = {1000, 7, 3000};
  // In any order.
  for (const uint32_t number : {2u, 0u, 1u})
    a_.Post(Part(Tid(1), number, kPlaces[number]), Payload(number));
  std::vector<Bytes> packets = SendFrom(a_, b_);
  ASSERT_EQ(packets.size(), kPackets);
  std::reverse(packets.begin(), packets.end());
  for (const Bytes& packet : packets) {
    EXPECT_EQ(Answer(), 0u) << "not complete";
    EXPECT_EQ(Give(packet), RxVerdict::kAccept);
  }
  EXPECT_EQ(Give(packets[0]), RxVerdict::kRudDuplicate);
  for (uint32_t i = 0; i < kPackets; ++i) EXPECT_TRUE(Lies(i, kPlaces[i])) << i;
  EXPECT_EQ(Answer(), 1u);
  const auto got = a_.Poll();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->type, URNIC_RUD_GOT_COMPLETION);
  EXPECT_EQ(got->tid, Tid(1));
}

TEST_F(HalfRdma, AnotherAttemptSendsWhatIsMissing) {
  for (uint32_t i = 0; i < kPackets; ++i)
    a_.Post(Part(Tid(1), i, i * kRudStride), Payload(i));
  const std::vector<Bytes> packets = SendFrom(a_, b_);
  EXPECT_EQ(Give(packets[0]), RxVerdict::kAccept);
  EXPECT_EQ(Give(packets[2]), RxVerdict::kAccept);
  a_.Post(Part(Tid(1, 1), 1, kRudStride), Payload(1));
  EXPECT_EQ(Give(SendFrom(a_, b_)[0]), RxVerdict::kAccept);
  EXPECT_EQ(Give(packets[1]), RxVerdict::kRudStale);
  EXPECT_EQ(Answer(), 1u);
  for (uint32_t i = 0; i < kPackets; ++i) EXPECT_TRUE(Lies(i, i * kRudStride));
}

TEST_F(HalfRdma, WhatIsRefused) {
  urnic_rud_send command = Part(Tid(1), 0, 0);
  command.packets = 3;
  EXPECT_EQ(StatusOf(command), URNIC_RUD_BAD_REQUEST) << "two packets";
  command = Part(Tid(1), 0, 0);
  command.flags |= URNIC_RUD_INLINE_DATA;
  EXPECT_EQ(StatusOf(command), URNIC_RUD_BAD_REQUEST) << "slot or entry";
  command = Part(Tid(1), 0, 0);
  command.condition = 1;
  command.value = 1;
  EXPECT_EQ(StatusOf(command), URNIC_RUD_BAD_REQUEST) << "would wait";
  command = Part(Tid(1), 0, 0);
  command.opcode = URNIC_RUD_READ;
  EXPECT_EQ(StatusOf(command), URNIC_RUD_BAD_REQUEST) << "not a write";
  EXPECT_EQ(StatusOf(Part(Tid(1), 0, 0)), URNIC_RUD_SENT);
  EXPECT_EQ(StatusOf(Part(Tid(1), 1, 64)), URNIC_RUD_SENT);
  EXPECT_EQ(StatusOf(Command(URNIC_RUD_WRITE, Tid(1), 64)), URNIC_RUD_OLD_TID)
      << "of a write from memory, each command has its own tid";
  EXPECT_EQ(StatusOf(Part(Tid(1) - 1, 1, 64)), URNIC_RUD_OLD_TID);
}

}  // namespace
}  // namespace urnic::testing
