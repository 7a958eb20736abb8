#include "datapath/engine/tcp_framer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "transport/wire/frame.h"

namespace urnic {
namespace {

struct Case {
  const char* name;
  bool ipv6 = false;
  bool tagged = false;
  uint8_t traffic_class = 0;
};

class TcpFramerTest : public ::testing::TestWithParam<Case> {
 protected:
  TcpFramerTest() {
    wire::PathHeaders headers;
    headers.src_mac = {{2, 0, 0, 0, 0, 1}};
    headers.dst_mac = {{2, 0, 0, 0, 0, 2}};
    if (GetParam().tagged) headers.vlan_tci = 100;
    headers.src = wire::Gid::FromIpv4(0x0a010001);
    headers.dst = wire::Gid::FromIpv4(0x0a010002);
    if (GetParam().ipv6) {
      headers.src.bytes = {0xfd, 1};
      headers.src.bytes[15] = 1;
      headers.dst.bytes = {0xfd, 1};
      headers.dst.bytes[15] = 2;
    }
    headers.traffic_class = GetParam().traffic_class;
    headers.udp_src_port = 50000;
    headers.flow_label = 0x12345;
    path_.headers = wire::HeaderTemplate(headers);
    path_.local = headers.src;
    path_.remote = headers.dst;
  }

  // Writes the frame of a segment with a payload of increasing bytes.
  std::vector<uint8_t> Write(const tcp::TcpSlot& slot,
                             bool finished_later = false) {
    std::vector<uint8_t> frame(2048, 0xee);
    frame.resize(TcpFramer::Write(path_, slot, frame.data(), finished_later,
                                  [](std::span<uint8_t> to) {
                                    for (size_t i = 0; i < to.size(); ++i) {
                                      to[i] = static_cast<uint8_t>(i);
                                    }
                                    return true;
                                  }));
    return frame;
  }

  static tcp::TcpSlot Slot(uint32_t bytes) {
    tcp::TcpSlot slot;
    slot.fields.src_port = 1234;
    slot.fields.dst_port = 4321;
    slot.fields.seq = SeqNum(0xfffffff0);
    slot.fields.ack = SeqNum(77);
    slot.fields.flags = wire::kTcpAck | wire::kTcpPsh;
    slot.fields.window = 5000;
    slot.fields.options.timestamps = {11, 22};
    slot.bytes = bytes;
    return slot;
  }

  net::Path path_;
};

TEST_P(TcpFramerTest, WhatIsWrittenIsParsedAgain) {
  for (const uint32_t bytes : {0u, 1u, 7u, 536u, 1448u}) {
    const std::vector<uint8_t> frame = Write(Slot(bytes));
    wire::FrameView view;
    ASSERT_EQ(wire::ParseFrame(frame.data(), frame.size(), view),
              RxVerdict::kTcp);
    EXPECT_EQ(view.src, path_.local);
    EXPECT_EQ(view.dst, path_.remote);
    EXPECT_EQ(view.vlan != nullptr, GetParam().tagged);
    wire::TcpSegment segment;
    ASSERT_EQ(wire::ParseTcp(view, /*checksum_verified=*/false, segment),
              RxVerdict::kAccept);
    EXPECT_EQ(segment.src_port, 1234);
    EXPECT_EQ(segment.dst_port, 4321);
    EXPECT_EQ(segment.seq, SeqNum(0xfffffff0));
    EXPECT_EQ(segment.ack, SeqNum(77));
    EXPECT_EQ(segment.flags, wire::kTcpAck | wire::kTcpPsh);
    EXPECT_EQ(segment.window, 5000);
    EXPECT_EQ(segment.options.timestamps, (wire::TcpTimestamps{11, 22}));
    ASSERT_EQ(segment.payload.size(), bytes);
    for (uint32_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(segment.payload[i], static_cast<uint8_t>(i));
    }
  }
}

// RoCE marks all packets of a path as capable, if it is told to. TCP decides
// for each segment.
TEST_P(TcpFramerTest, OnlyTheSlotDecidesAboutEcn) {
  for (const bool ect : {false, true}) {
    tcp::TcpSlot slot = Slot(100);
    slot.ect = ect;
    const std::vector<uint8_t> frame = Write(slot);
    wire::FrameView view;
    ASSERT_EQ(wire::ParseFrame(frame.data(), frame.size(), view),
              RxVerdict::kTcp);
    EXPECT_EQ(view.tos & wire::kEcnMask, ect ? wire::kEcnCapable : 0);
    EXPECT_EQ(view.tos & ~wire::kEcnMask,
              GetParam().traffic_class & ~wire::kEcnMask);
  }
}

TEST_P(TcpFramerTest, APayloadThatCannotBeMadeGivesNoFrame) {
  std::vector<uint8_t> frame(2048);
  EXPECT_EQ(TcpFramer::Write(path_, Slot(8), frame.data(), false,
                             [](std::span<uint8_t>) { return false; }),
            0u);
}

// As a device does it: from the TCP header on, the field included.
TEST_P(TcpFramerTest, APortCanFinishTheChecksum) {
  for (const uint32_t bytes : {0u, 1u, 7u, 536u, 1448u}) {
    const std::vector<uint8_t> whole = Write(Slot(bytes));
    std::vector<uint8_t> frame = Write(Slot(bytes), /*finished_later=*/true);
    ASSERT_EQ(frame.size(), whole.size());
    const size_t tcp = static_cast<size_t>(path_.headers.ip_end());
    const wire::Be<uint16_t> sum(
        wire::ChecksumReference(std::span(frame).subspan(tcp)));
    reinterpret_cast<wire::Tcp*>(&frame[tcp])->checksum = sum;
    EXPECT_EQ(frame, whole);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Paths, TcpFramerTest,
    ::testing::Values(Case{"Ipv4"}, Case{"Ipv4Tagged", false, true},
                      Case{"Ipv4Class", false, false, 0x6a}, Case{"Ipv6", true},
                      Case{"Ipv6TaggedClass", true, true, 0x6a}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace urnic
