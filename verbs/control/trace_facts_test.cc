// The levels that `urnic trace` sets, and the answers that it gets, on a
// loopback device.

#include "verbs/control/trace_facts.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ras/facts/facts.h"
#include "verbs/control/control_commands.h"
#include "verbs/control/cq.h"
#include "verbs/control/device.h"
#include "verbs/control/pd.h"
#include "verbs/control/qp.h"
#include "verbs/control/testing/loop_device.h"

namespace urnic::control {
namespace {

class TraceFactsTest : public LoopDeviceTest {
 protected:
  TraceFactsTest() {
    device_ = OpenDevice();
    pd_ = *Pd::Create(*device_);
    cq_ = *Cq::Create(*device_, {.entries = 10});
  }

  // The answer without "ok"; or its second line, after "error: ".
  std::string Ask(std::string_view request) const {
    std::string answer;
    AnswerControl(device_->open_nic(), request, [&](std::string_view part) {
      answer += part;
      return true;
    });
    if (answer.starts_with("ok\n")) return answer.substr(3);
    EXPECT_TRUE(answer.starts_with("error\n")) << answer;
    return "error: " + answer.substr(6);
  }
  std::vector<Facts> Show(std::string_view kind) const {
    const std::string answer = Ask("show " + std::string(kind));
    std::vector<Facts> all;
    for (size_t at = 0; at != answer.size();) {
      const size_t end = answer.find('\n', at);
      all.push_back(*ParseFacts(answer.substr(at, end - at)));
      at = end + 1;
    }
    return all;
  }
  // "verbs=2 qp=4 .."
  std::string Levels() const {
    std::string text;
    for (const Facts& level : Show("trace-level"))
      text += *level.Find("component") + "=" + *level.Find("level") + " ";
    return text;
  }
  std::shared_ptr<Qp> MakeQp() const {
    QpRequest request;
    request.send_cq = request.recv_cq = cq_.get();
    request.pd = pd_.get();
    request.caps = {.max_send_wr = 4, .max_recv_wr = 4};
    return *Qp::Create(*device_, request);
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<Pd> pd_;
  std::shared_ptr<Cq> cq_;
};

TEST_F(TraceFactsTest, LevelsChangeAtRunTime) {
  EXPECT_EQ(Levels(), "verbs=2 qp=2 cm=2 receive=2 transmit=2 completion=2 ");
  EXPECT_EQ(Ask("trace all=0,qp=5"), "");
  EXPECT_EQ(Levels(), "verbs=0 qp=5 cm=0 receive=0 transmit=0 completion=0 ");
}

TEST_F(TraceFactsTest, AWrongLevelChangesNothing) {
  EXPECT_EQ(Ask("trace all=0,qp=10"),
            "error: \"qp=10\": a level is a digit from 0 to 9\n");
  EXPECT_TRUE(Ask("trace nobody=1")
                  .starts_with("error: \"nobody\" is unknown; the components "
                               "are all, verbs, qp"));
  EXPECT_TRUE(Levels().starts_with("verbs=2 qp=2 "));
}

TEST_F(TraceFactsTest, AMistakeOfTheVariableIsTold) {
  setenv("URNIC_TRACE", "verbs=44", 1);
  ::testing::internal::CaptureStderr();
  SetChosenTraceLevels(device_->open_nic());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "urnic: URNIC_TRACE: \"verbs=44\": a level is a digit from 0 to 9; "
            "the default levels are used\n");
  unsetenv("URNIC_TRACE");
}

TEST_F(TraceFactsTest, AnEventHasItsValuesAndItsPlace) {
  EXPECT_EQ(Ask("trace qp=4"), "");
  const auto qp = MakeQp();
  const auto events = Show("trace");
  ASSERT_EQ(events.size(), 1u);
  const Facts& event = events.front();
  const auto is = [&](const char* name, const std::string& value) {
    const std::string* const found = event.Find(name);
    EXPECT_EQ(found == nullptr ? "-" : *found, value) << name;
  };
  is("link", "urnic0/1");
  is("lqpn", std::to_string(qp->qpn()));
  is("component", "qp");
  is("level", "4");
  is("point", "qp-created");
  is("service", "0");
  is("file", "datapath/engine/qp_table.cc");
  is("function", "Enlist<urnic::RoceQp>");
}

TEST_F(TraceFactsTest, ErrorsAreThereByDefault) {
  device_->NoteRefusal(Cq::Create(*device_, {.entries = 0}).status());
  const auto events = Show("trace");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(*events.front().Find("point"), "refused");
  EXPECT_EQ(*events.front().Find("code"), "URN2001");
}

// Events are added while others read. ThreadSanitizer judges.
TEST_F(TraceFactsTest, EventsAreMissedWhileOthersRead) {
  EXPECT_EQ(Ask("trace qp=5"), "");
  std::atomic<bool> done = false;
  std::thread maker([&] {
    for (int i = 0; i < 300; ++i) MakeQp();
    done = true;
  });
  while (!done) {
    for (const Facts& event : Show("trace"))
      EXPECT_NE(event.Find("point"), nullptr);
  }
  maker.join();
  uint64_t seen = Show("trace").size();
  const Facts level = Show("trace-level").front();
  EXPECT_EQ(std::to_string(seen), *level.Find("kept-of-all"));
  // Each is created, and destroyed.
  EXPECT_EQ(seen + std::stoull(*level.Find("missed-of-all")), 600u);
}

}  // namespace
}  // namespace urnic::control
