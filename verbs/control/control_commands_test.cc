// Requests on the control socket that no version of urnic sends. Each is
// answered with "ok" or "error", and disturbs nothing.

#include "verbs/control/control_commands.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "verbs/control/cq.h"
#include "verbs/control/device.h"
#include "verbs/control/pd.h"
#include "verbs/control/testing/loop_device.h"

namespace urnic::control {
namespace {

class ControlCommandsTest : public LoopDeviceTest {
 protected:
  ControlCommandsTest() {
    device_ = OpenDevice();
    pd_ = *Pd::Create(*device_);
  }
  std::string Ask(std::string_view request) {
    std::string answer;
    AnswerControl(device_->open_nic(), request, [&](std::string_view part) {
      answer += part;
      return true;
    });
    return answer;
  }
  static bool IsAnswer(const std::string& answer) {
    return answer.starts_with("ok\n") || answer.starts_with("error\n");
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Pd> pd_;
};

TEST_F(ControlCommandsTest, UnknownRequestsAreRefused) {
  for (const std::string request : {"",
                                    " ",
                                    "show",
                                    "show ",
                                    "show qps",
                                    "show qp qp",
                                    "dump",
                                    "dump ",
                                    "dump -1",
                                    "dump 10001",
                                    "dump 99999999999999999999",

                                    "trace",
                                    "trace ",
                                    "trace all=10",
                                    "trace receive=8,",
                                    "capture",
                                    "capture ",
                                    "capture start",
                                    "capture start x",
                                    "capture start 99999999999",
                                    "capture start 64 lqpn",
                                    "capture start 64 peer nobody",
                                    "addr add",
                                    "addr add ",
                                    "addr add 10.0.0.1",
                                    "route add 10.0.0.0/8 via",
                                    "STATE",
                                    "state ",
                                    "\n",
                                    "show\nqp",
                                    "show qp\n"}) {
    EXPECT_TRUE(Ask(request).starts_with("error\n")) << request;
  }
  EXPECT_TRUE(Ask(std::string("show qp\0", 8)).starts_with("error\n"));
  EXPECT_TRUE(Ask(std::string(256, 'x')).starts_with("error\n"));
}

TEST_F(ControlCommandsTest, AnyBytesAreAnsweredAndDisturbNothing) {
  const std::vector<std::string> requests = {
      "addr",
      "addr add 10.8.0.1/24",
      "addr del 10.8.0.1/24",
      "route",
      "route add 10.0.0.0/8 via 10.9.0.9",
      "counters",
      "state",
      "show qp",
      "show error",
      "show memory",
      "trace receive=8",
      "capture read",
      "capture start 64 lqpn 17",
      "capture stop",
      "dump 1"};
  std::mt19937 random(1);
  const auto below = [&](size_t limit) { return random() % limit; };
  for (int i = 0; i < 20'000; ++i) {
    std::string request = requests[below(requests.size())];
    for (size_t changes = below(4) + 1; changes-- != 0;) {
      const size_t at = below(request.size() + 1);
      switch (below(4)) {
        case 0:
          request.insert(at, 1, static_cast<char>(random()));
          break;
        case 1:
          request.resize(at);
          break;
        case 2:
          if (at < request.size()) request[at] = static_cast<char>(random());
          break;
        default:
          request.insert(at, requests[below(requests.size())].substr(0, 8));
      }
    }
    const std::string answer = Ask(request);
    ASSERT_TRUE(IsAnswer(answer)) << i << ": " << request << " -> " << answer;
  }
  EXPECT_NE(Ask("show pd").find("pdn="), std::string::npos);
  EXPECT_TRUE(Cq::Create(*device_, {.entries = 4}).ok());
}

}  // namespace
}  // namespace urnic::control
