#include "transport/rud/upper/reassembly.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "transport/base/random.h"
#include "transport/rud/upper/types.h"
#include "transport/wire/rud.h"

namespace urnic::rud::upper {
namespace {

constexpr uint32_t kStride = 8;
constexpr uint32_t kUnitBytes = kStride * kUnitPackets;

struct Packet {
  urnic_rud_receive entry = {};
  std::vector<uint8_t> payload;
};

// The packets of a message, as entries of an adapter.
std::vector<Packet> PacketsOf(uint32_t sequence,
                              const std::vector<uint8_t>& message) {
  const auto bytes = static_cast<uint32_t>(message.size());
  const uint32_t units = bytes == 0 ? 1 : (bytes - 1) / kUnitBytes + 1;
  std::vector<Packet> packets;
  for (uint32_t unit = 0; unit < units; ++unit) {
    const uint32_t total = std::min(kUnitBytes, bytes - unit * kUnitBytes);
    for (uint32_t i = 0; i < wire::RudPackets(total, kStride); ++i) {
      Packet packet;
      packet.entry.type = URNIC_RUD_GOT_DATA;
      packet.entry.number = static_cast<uint8_t>(i);
      packet.entry.stride = kStride;
      packet.entry.total = total;
      packet.entry.offset = i * kStride;
      packet.entry.bytes =
          static_cast<uint16_t>(wire::RudPayloadOf(total, kStride, i));
      packet.entry.pvo = MessageTag{sequence, unit, units}.value();
      const auto from = message.begin() + unit * kUnitBytes + i * kStride;
      packet.payload.assign(from, from + packet.entry.bytes);
      packets.push_back(std::move(packet));
    }
  }
  return packets;
}

std::vector<uint8_t> MessageOf(uint32_t bytes) {
  std::vector<uint8_t> message(bytes);
  std::iota(message.begin(), message.end(), uint8_t{1});
  return message;
}

TEST(MessageTag, SaysWhatWasWritten) {
  const MessageTag tag = MessageTag::Of(MessageTag{
      (1u << 23) - 1, MessageTag::kMaxUnits - 1, MessageTag::kMaxUnits}
                                            .value());
  EXPECT_EQ(tag.sequence, (1u << 23) - 1);
  EXPECT_EQ(tag.unit, MessageTag::kMaxUnits - 1);
  EXPECT_EQ(tag.units, MessageTag::kMaxUnits);
  EXPECT_EQ(tag.value() & MessageTag::kProbe, 0u);
}

TEST(MessageWindow, AMessageIsTakenOnceAlsoAroundTheEndOfTheNumbers) {
  MessageWindow window;
  constexpr uint32_t kMask = (1u << MessageTag::kSequenceBits) - 1;
  Random random(1);
  // All numbers are near the newest one.
  for (uint32_t base = 0; base < 3u << MessageTag::kSequenceBits;
       base += 3000) {
    EXPECT_TRUE(window.Take(base & kMask));
    EXPECT_FALSE(window.Take(base & kMask));
    const uint32_t late = base + 2000 + (base % 7);
    EXPECT_FALSE(window.WasTaken(late & kMask));
    EXPECT_TRUE(window.Take(late & kMask));
    EXPECT_TRUE(window.WasTaken(base & kMask));
  }
}

TEST(Reassembly, AMessageComesOnceInAnyOrderOfItsPackets) {
  Random random(1);
  Reassembly reassembly({.bytes = 1 << 20, .messages = 4});
  for (uint32_t sequence = 0; sequence < 500; ++sequence) {
    const std::vector<uint8_t> message =
        MessageOf(static_cast<uint32_t>(random.Below(5 * kUnitBytes)));
    std::vector<Packet> packets = PacketsOf(sequence, message);
    // Each packet arrives twice.
    const std::vector<Packet> again = packets;
    packets.insert(packets.end(), again.begin(), again.end());
    for (size_t i = packets.size(); i-- > 1;)
      std::swap(packets[i], packets[random.Below(i + 1)]);
    int times = 0;
    for (const Packet& packet : packets) {
      const auto got = reassembly.OnPacket(packet.entry, packet.payload.data());
      if (!got.has_value()) continue;
      ++times;
      EXPECT_TRUE(
          std::equal(got->begin(), got->end(), message.begin(), message.end()));
    }
    EXPECT_EQ(times, 1);
    reassembly.Recycle();
  }
  EXPECT_EQ(reassembly.refused(), 0u);
}

TEST(Reassembly, TheLimitsHold) {
  Reassembly reassembly({.bytes = 3 * kUnitBytes, .messages = 2});
  const auto first = PacketsOf(0, MessageOf(2 * kUnitBytes));
  const auto second = PacketsOf(1, MessageOf(2 * kUnitBytes));
  for (size_t i = 1; i < first.size(); ++i)
    reassembly.OnPacket(first[i].entry, first[i].payload.data());
  EXPECT_FALSE(reassembly.OnPacket(second[0].entry, second[0].payload.data()));
  EXPECT_EQ(reassembly.refused(), 1u);
  EXPECT_TRUE(reassembly.OnPacket(first[0].entry, first[0].payload.data()));
  reassembly.OnPacket(second[0].entry, second[0].payload.data());
  EXPECT_EQ(reassembly.refused(), 1u);
}

TEST(Reassembly, AMessageThatWasGivenUpMakesRoomForOthers) {
  Reassembly reassembly({.bytes = 2 * kUnitBytes, .messages = 1});
  const auto given_up = PacketsOf(0, MessageOf(2 * kUnitBytes));
  reassembly.OnPacket(given_up[0].entry, given_up[0].payload.data());
  for (uint32_t sequence = 1; sequence <= kMessageWindow; ++sequence) {
    const auto small = PacketsOf(sequence, MessageOf(3));
    EXPECT_TRUE(reassembly.OnPacket(small[0].entry, small[0].payload.data()));
  }
  size_t times = 0;
  for (const Packet& packet :
       PacketsOf(kMessageWindow + 1, MessageOf(2 * kUnitBytes))) {
    times +=
        reassembly.OnPacket(packet.entry, packet.payload.data()).has_value();
  }
  EXPECT_EQ(times, 1u);
}

TEST(Reassembly, PacketsThatContradictEachOtherAreRefused) {
  Reassembly reassembly({.bytes = 1 << 20, .messages = 8});
  std::vector<Packet> packets = PacketsOf(0, MessageOf(2 * kUnitBytes + 5));
  reassembly.OnPacket(packets[0].entry, packets[0].payload.data());
  Packet other = packets[1];
  other.entry.pvo = MessageTag{0, 0, 9}.value();
  reassembly.OnPacket(other.entry, other.payload.data());
  other = packets[1];
  other.entry.pvo = MessageTag{0, 5, 3}.value();
  reassembly.OnPacket(other.entry, other.payload.data());
  other = packets[1];
  other.entry.total = kUnitBytes - 1;
  reassembly.OnPacket(other.entry, other.payload.data());
  other = packets[1];
  other.entry.total = kUnitBytes * 2;
  reassembly.OnPacket(other.entry, other.payload.data());
  EXPECT_EQ(reassembly.refused(), 4u);
}

}  // namespace
}  // namespace urnic::rud::upper
