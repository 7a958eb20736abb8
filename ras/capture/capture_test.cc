#include "ras/capture/capture.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "ras/capture/pcapng.h"

namespace urnic {
namespace {

class CaptureTest : public ::testing::Test {
 protected:
  static std::vector<uint8_t> Frame(size_t bytes) {
    std::vector<uint8_t> frame(bytes);
    for (size_t i = 0; i != bytes; ++i) frame[i] = static_cast<uint8_t>(i);
    return frame;
  }
  // How many there were.
  size_t TakeAll() {
    size_t count = 0;
    capture_.Take([&](const CapturedFrame&) { return ++count != 0; });
    return count;
  }

  Time now_ = Time::FromNs(1000);
  Capture capture_{[this] { return now_; }};
  const Time later_ = now_ + Duration::Seconds(1);
};

TEST_F(CaptureTest, KeepsTheBeginningOfEachFrame) {
  capture_.Start({.snap_bytes = 100, .wants = {}}, later_);
  capture_.Add(/*outbound=*/true, 17, nullptr, Frame(60));
  now_ = Time::FromNs(2000);
  capture_.Add(/*outbound=*/false, 18, "Accept", Frame(200));
  std::vector<CapturedFrame> frames;
  capture_.Take([&](const CapturedFrame& frame) {
    frames.push_back(frame);
    return true;
  });
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].at.ns(), 1000);
  EXPECT_TRUE(frames[0].outbound);
  EXPECT_EQ(frames[0].qpn, 17u);
  EXPECT_EQ(frames[0].verdict, nullptr);
  EXPECT_EQ(frames[0].bytes.size(), 60u);
  EXPECT_EQ(frames[1].at.ns(), 2000);
  EXPECT_STREQ(frames[1].verdict, "Accept");
  EXPECT_EQ(frames[1].frame_bytes, 200u);
  ASSERT_EQ(frames[1].bytes.size(), 100u);
  EXPECT_EQ(frames[1].bytes[99], 99);
  EXPECT_EQ(TakeAll(), 0u);
}

TEST_F(CaptureTest, KeepsWhatIsWanted) {
  capture_.Start({.snap_bytes = 100,
                  .wants = [](const CapturedFrame& f) { return f.qpn == 17; }},
                 later_);
  for (const uint32_t qpn : {16, 17, 18, 17})
    capture_.Add(false, qpn, "Accept", Frame(60));
  EXPECT_EQ(TakeAll(), 2u);
}

TEST_F(CaptureTest, CountsWhatFindsNoPlace) {
  capture_.Start({.snap_bytes = Capture::kSnapMax, .wants = {}}, later_);
  const size_t more_than_fits = Capture::kBytes / Capture::kSnapMax + 1;
  for (size_t i = 0; i != more_than_fits; ++i)
    capture_.Add(false, 1, "Accept", Frame(60));
  const uint64_t lost = capture_.lost();
  EXPECT_GT(lost, 0u);
  EXPECT_EQ(TakeAll(), more_than_fits - lost);
  capture_.Add(false, 1, "Accept", Frame(60));
  EXPECT_EQ(capture_.lost(), lost);
  EXPECT_EQ(TakeAll(), 1u);
}

TEST_F(CaptureTest, AReaderTakesSomeAndComesAgain) {
  capture_.Start({.snap_bytes = 100, .wants = {}}, later_);
  for (const uint32_t qpn : {1, 2, 3}) capture_.Add(false, qpn, "", Frame(60));
  capture_.Take([](const CapturedFrame& frame) { return frame.qpn != 2; });
  capture_.Take([](const CapturedFrame& frame) {
    EXPECT_EQ(frame.qpn, 2u);
    return false;
  });
  EXPECT_EQ(TakeAll(), 2u);
}

TEST_F(CaptureTest, EndsWithoutAReader) {
  capture_.Start({.snap_bytes = 100, .wants = {}}, later_);
  now_ = later_ + Duration::Nanoseconds(1);
  EXPECT_TRUE(capture_.active());
  capture_.Add(false, 1, "Accept", Frame(60));
  EXPECT_FALSE(capture_.active());
  EXPECT_EQ(TakeAll(), 0u);
}

// tests/e2e lets Wireshark's programs read a file.
TEST(PcapngTest, PacketsChangeTheirInterface) {
  const uint8_t frame[61] = {1, 2, 3};
  std::string packets;
  for (int i = 0; i != 2; ++i) {
    pcapng::AppendPacket(
        {.at_ns = 5, .frame_bytes = 61, .bytes = frame, .comment = "Accept"},
        packets);
  }
  const std::string before = packets;
  ASSERT_EQ(pcapng::SetInterface(7, packets), 2u);
  size_t changed = 0;
  for (size_t i = 0; i != packets.size(); ++i)
    changed += packets[i] != before[i];
  EXPECT_EQ(changed, 2u);
  EXPECT_EQ(packets.size() % 8, 0u);
}

TEST(PcapngTest, WhatIsNoPacketIsRefused) {
  const uint8_t frame[60] = {};
  std::string packets;
  pcapng::AppendPacket({.frame_bytes = 60, .bytes = frame, .comment = ""},
                       packets);
  for (size_t length = 1; length != packets.size(); ++length) {
    std::string cut = packets.substr(0, length);
    EXPECT_EQ(std::nullopt, pcapng::SetInterface(1, cut)) << length;
  }
  std::string section;
  pcapng::AppendSection("test", section);
  EXPECT_EQ(std::nullopt, pcapng::SetInterface(1, section));
  std::string endless = packets;
  std::memset(&endless[4], 0, 4);  // a length of zero
  EXPECT_EQ(std::nullopt, pcapng::SetInterface(1, endless));
}

}  // namespace
}  // namespace urnic
