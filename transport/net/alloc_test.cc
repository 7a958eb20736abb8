// A host's memory is bounded: once its tables are full, no frame or question
// makes it allocate.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/support/alloc_guard.h"
#include "tests/support/host_wire.h"
#include "transport/net/host.h"

namespace urnic::net {
namespace {

using testing::AllocGuard;
using testing::FrameBytes;
using testing::GidOf;
using testing::MacOf;
using testing::SelfOf;

class NullSink final : public FrameSink {
 public:
  std::span<uint8_t> Frame() override { return room_; }
  void Send(size_t, bool) override {}

 private:
  uint8_t room_[2048];
};

class AllocTest : public ::testing::Test {
 protected:
  static HostConfig Config() {
    HostConfig config;
    config.mac = MacOf(1);
    config.addresses = {{GidOf(1), 96 + 16}};
    config.max_neighbors = 100;
    config.max_questions = 50;
    config.max_path_mtus = 10;
    return config;
  }
  static std::vector<FrameBytes> Crowd(uint32_t first, uint32_t count) {
    std::vector<FrameBytes> frames;
    for (uint32_t i = first; i < first + count; ++i) {
      frames.push_back(testing::AskFrame(
          SelfOf(MacOf(9), wire::Gid::FromIpv4(0x0a000100 + i)), GidOf(1)));
    }
    return frames;
  }
  void Give(const std::vector<FrameBytes>& frames) {
    for (const FrameBytes& frame : frames) {
      wire::FrameView view;
      const RxVerdict shape =
          wire::ParseFrame(frame.data(), frame.size(), view);
      EXPECT_EQ(host_.OnFrame(view, shape, {frame}, now_, sink_),
                RxVerdict::kArp);
      now_ = now_ + Duration::Milliseconds(1);
    }
  }
  // None is answered; returns when all have expired.
  void AskForMany() {
    for (uint32_t i = 0; i < 60; ++i) {
      (void)host_.Ask({.local = GidOf(1),
                       .remote = wire::Gid::FromIpv4(0x0a008000 + i % 7)},
                      0, now_, now_ + Duration::Milliseconds(i), sink_);
    }
    while (!host_.NextDeadline().IsInfinite()) {
      now_ = std::max(now_, host_.NextDeadline());
      host_.OnTimer(now_, sink_);
    }
    Host::Answer answer;
    while (host_.TakeAnswer(now_, answer)) ++answers_;
  }

  Host host_{Config()};
  NullSink sink_;
  Time now_ = Time::FromNs(1000000000);
  uint32_t answers_ = 0;
};

TEST_F(AllocTest, FullTablesDoNotGrow) {
  const std::vector<FrameBytes> first = Crowd(0, 200);
  const std::vector<FrameBytes> second = Crowd(200, 1000);
  Give(first);
  AskForMany();
  AllocGuard guard;
  Give(second);
  AskForMany();
  EXPECT_EQ(guard.count(), 0u);
  EXPECT_EQ(answers_, 100u);
  EXPECT_LE(host_.neighbors().size(), 100u);
}

}  // namespace
}  // namespace urnic::net
