// The requests of `urnic capture` to a loopback device. The captured frames are
// tested with programs (tests/e2e/test_capture.py).

#include "verbs/control/capture_commands.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "datapath/engine/engine.h"
#include "ras/capture/pcapng.h"
#include "verbs/control/device.h"
#include "verbs/control/testing/loop_device.h"

namespace urnic::control {
namespace {

class CaptureCommandsTest : public LoopDeviceTest {
 protected:
  CaptureCommandsTest() { device_ = OpenDevice(); }

  std::string Ask(const std::string& request) const {
    return AnswerCapture(device_->open_nic(), request);
  }
  // As the engine does.
  void AddFrame(uint32_t qpn, const std::vector<uint8_t>& frame) const {
    Engine::ControlScope scope(device_->engine());
    if (!device_->engine().capture().active()) return;
    device_->engine().capture().Add(/*outbound=*/true, qpn, nullptr, frame);
  }
  // How many frames an answer has.
  static size_t Frames(std::string answer) {
    EXPECT_TRUE(answer.starts_with("ok\n")) << answer;
    answer.erase(0, 3);
    return pcapng::SetInterface(0, answer).value_or(SIZE_MAX);
  }

  std::shared_ptr<Device> device_;
};

TEST_F(CaptureCommandsTest, FramesComeOnce) {
  EXPECT_EQ(Ask("start 64"), "ok\n");
  EXPECT_EQ(Frames(Ask("read")), 0u);
  AddFrame(17, std::vector<uint8_t>(60));
  AddFrame(18, std::vector<uint8_t>(100));
  EXPECT_EQ(Frames(Ask("read")), 2u);
  EXPECT_EQ(Frames(Ask("read")), 0u);
  EXPECT_EQ(Ask("stop"), "ok\n0\n");
  AddFrame(17, std::vector<uint8_t>(60));
  EXPECT_TRUE(Ask("read").starts_with("error\nno capture is under way"));
}

TEST_F(CaptureCommandsTest, ManyFramesComeInSeveralAnswers) {
  EXPECT_EQ(Ask("start 1500"), "ok\n");
  constexpr size_t kCount = 6000;
  for (size_t i = 0; i != kCount; ++i) AddFrame(17, std::vector<uint8_t>(1500));
  size_t seen = 0;
  size_t answers = 0;
  while (const size_t frames = Frames(Ask("read"))) {
    seen += frames;
    ++answers;
  }
  EXPECT_EQ(seen, kCount);
  EXPECT_GT(answers, 1u);
}

TEST_F(CaptureCommandsTest, AQueuePairOrAPeerIsChosen) {
  // 10.9.0.1 to 10.9.0.2, UDP
  std::vector<uint8_t> frame = {2,  0,    0,    0,    0,    2, 2,  0, 0,  0, 0,
                                1,  0x08, 0x00, 0x45, 0,    0, 28, 0, 0,  0, 0,
                                64, 17,   0x66, 0xbd, 10,   9, 0,  1, 10, 9, 0,
                                2,  0xc0, 0,    0x12, 0xb7, 0, 8,  0, 0};
  EXPECT_EQ(Ask("start 64 lqpn 17"), "ok\n");
  AddFrame(17, frame);
  AddFrame(18, frame);
  EXPECT_EQ(Frames(Ask("read")), 1u);
  EXPECT_EQ(Ask("stop"), "ok\n0\n");
  const auto seen_by = [&](const std::string& peer) {
    EXPECT_EQ(Ask("start 64 peer " + peer), "ok\n");
    AddFrame(17, frame);
    const size_t frames = Frames(Ask("read"));
    EXPECT_EQ(Ask("stop"), "ok\n0\n");
    return frames;
  };
  EXPECT_EQ(seen_by("10.9.0.1"), 1u);
  EXPECT_EQ(seen_by("10.9.0.2"), 1u);
  EXPECT_EQ(seen_by("10.9.0.3"), 0u);
  EXPECT_EQ(seen_by("10.9.0.0/24"), 1u);
  EXPECT_EQ(seen_by("10.8.0.0/16"), 0u);
}

TEST_F(CaptureCommandsTest, APortHasOneCaptureAtATime) {
  EXPECT_EQ(Ask("start 64"), "ok\n");
  EXPECT_EQ(Ask("start 64"),
            "error\nanother urnic capture is using this port\n");
  EXPECT_EQ(Ask("stop"), "ok\n0\n");
  EXPECT_EQ(Ask("start 64"), "ok\n");
}

TEST_F(CaptureCommandsTest, WrongRequestsAreRefused) {
  for (const char* request :
       {"", "begin", "start", "start 0", "start 9217", "start x", "start 64 ",
        "start 64 lqpn", "start 64 lqpn x", "start 64 peer 10.9.0",
        "start 64 peer 10.9.0.1/33", "start 64 color red", "read 5", "stop x"})
    EXPECT_TRUE(Ask(request).starts_with("error\n")) << request;
  EXPECT_TRUE(Ask("read").starts_with("error\n"));
}

}  // namespace
}  // namespace urnic::control
