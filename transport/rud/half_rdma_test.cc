// Half RDMA (document C): one end has memory, the other a FIFO.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/support/rud_pair.h"

namespace urnic::testing {
namespace {

class HalfRdma : public RudPair {
 protected:
  static constexpr uint32_t kPackets = 3;
  static constexpr uint32_t kBytes = kPackets * kRudStride;

  // A write of packet `number` of a transfer, from a slot to this place in B's
  // memory.
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

class ReadToFifo : public HalfRdma {
 protected:
  static constexpr uint64_t kMark = 0x1234;

  urnic_rud_send Read(uint64_t tid) const {
    urnic_rud_send command = Command(URNIC_RUD_READ, tid, kBytes);
    command.flags = URNIC_RUD_TO_FIFO;
    command.notify |= URNIC_RUD_NOTIFY_TARGET;
    command.local_pvo = kMark;
    return command;
  }
  // Sends the request to B, and returns B's packets.
  std::vector<Bytes> Ask(const urnic_rud_send& command) {
    for (const Bytes& request : Send(command))
      EXPECT_EQ(Give(request), RxVerdict::kAccept);
    return SendFrom(b_, a_);
  }
  RxVerdict GiveA(const Bytes& packet) {
    return a_.Receive(packet, b_.config().address);
  }
};

TEST_F(ReadToFifo, PacketsArriveInTheFifoOfTheReaderAndTheEndIsTold) {
  std::iota(b_bytes_.begin(), b_bytes_.end(), uint8_t{5});
  std::vector<Bytes> packets = Ask(Read(Tid(1)));
  ASSERT_EQ(packets.size(), kPackets);
  std::reverse(packets.begin(), packets.end());
  for (const Bytes& packet : packets)
    EXPECT_EQ(GiveA(packet), RxVerdict::kAccept);
  EXPECT_EQ(GiveA(packets[0]), RxVerdict::kRudDuplicate);
  for (uint32_t number = kPackets; number-- != 0;) {
    const auto got = a_.Poll();
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->type, URNIC_RUD_GOT_DATA);
    EXPECT_EQ(got->number, number);
    EXPECT_EQ(got->offset, number * kRudStride);
    EXPECT_EQ(got->pvo, kMark);
    EXPECT_TRUE(std::equal(got->payload.begin(), got->payload.end(),
                           b_bytes_.begin() + number * kRudStride));
  }
  const auto end = a_.Poll();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->type, URNIC_RUD_GOT_TRANSFER);
  EXPECT_EQ(end->tid, Tid(1));
  for (const Bytes& packet : SendFrom(a_, b_))
    EXPECT_EQ(Give(packet), RxVerdict::kAccept);
  EXPECT_EQ(b_.Poll()->type, URNIC_RUD_GOT_COMPLETION);
}

TEST_F(ReadToFifo, AnotherAttemptBringsWhatIsMissing) {
  std::vector<Bytes> packets = Ask(Read(Tid(1)));
  ASSERT_EQ(packets.size(), kPackets);
  EXPECT_EQ(GiveA(packets[1]), RxVerdict::kAccept);
  const std::vector<Bytes> again = Ask(Read(Tid(1, 1)));
  ASSERT_EQ(again.size(), kPackets - 1);
  EXPECT_EQ(GiveA(packets[0]), RxVerdict::kRudStale);
  for (const Bytes& packet : again)
    EXPECT_EQ(GiveA(packet), RxVerdict::kAccept);
  EXPECT_EQ(a_.Poll()->number, 1u);
  EXPECT_EQ(a_.Poll()->number, 0u);
  EXPECT_EQ(a_.Poll()->number, 2u);
  EXPECT_EQ(a_.Poll()->type, URNIC_RUD_GOT_TRANSFER);
}

// A packet that finds no room has not arrived.
TEST_F(ReadToFifo, AFullFifoIsALoss) {
  RudEndConfig small = RudPairConfig(3);
  small.receive_entries = 2;
  RudEnd reader(small);
  const rud::ContextId context = reader.Acquire();
  urnic_rud_send command = Read(Tid(1));
  command.local_context = context.value();
  reader.Post(command);
  const auto ask = [&] {
    for (const Bytes& request : SendFrom(reader, b_))
      EXPECT_EQ(b_.Receive(request, small.address), RxVerdict::kAccept);
    return SendFrom(b_, reader);
  };
  const std::vector<Bytes> packets = ask();
  ASSERT_EQ(packets.size(), 3u);
  const auto give = [&](const Bytes& packet) {
    return reader.Receive(packet, b_.config().address);
  };
  EXPECT_EQ(give(packets[0]), RxVerdict::kAccept);
  EXPECT_EQ(give(packets[1]), RxVerdict::kAccept);
  EXPECT_EQ(give(packets[2]), RxVerdict::kRudFifoFull);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(reader.Poll().has_value());
  reader.window().FinishTransmit();
  command.tid = Tid(1, 1);
  reader.Post(command);
  const std::vector<Bytes> again = ask();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(give(again[0]), RxVerdict::kAccept);
  EXPECT_EQ(reader.Poll()->number, 2u);
  EXPECT_EQ(reader.Poll()->type, URNIC_RUD_GOT_TRANSFER);
}

TEST_F(ReadToFifo, NothingElseIsTakenForIt) {
  const std::vector<Bytes> packets = Ask(Read(Tid(1)));
  const auto forge = [&](auto&& change) {
    Bytes packet = packets[0];
    change(packet.data());
    const size_t body = packet.size() - wire::kRudCrcBytes;
    wire::Crc32c crc =
        wire::RudCrcOfAddresses(b_.config().address, a_.config().address);
    crc.Add(std::span(packet).first(body)).Store(&packet[body]);
    return packet;
  };
  EXPECT_EQ(GiveA(forge([](uint8_t* bytes) {
              reinterpret_cast<wire::RudBase*>(bytes)->flags =
                  wire::kRudAnswersRead;
            })),
            RxVerdict::kRudMismatch)
      << "to memory";
  EXPECT_EQ(GiveA(forge([](uint8_t* bytes) {
              bytes[sizeof(wire::RudBase) + sizeof(wire::RudTransfer)] ^= 1;
            })),
            RxVerdict::kRudMismatch)
      << "another PVO";
  EXPECT_FALSE(a_.Poll().has_value());
  // The same read into memory begins from scratch.
  urnic_rud_send command = Read(Tid(1, 1));
  command.flags = 0;
  command.local_pvo = a_pvo_.value;
  EXPECT_EQ(Ask(command).size(), kPackets);
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
