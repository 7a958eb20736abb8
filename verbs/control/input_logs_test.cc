// Which queue pairs of a loopback device are logged, and for how long.

#include "verbs/control/input_logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ras/facts/facts.h"
#include "ras/inputs/input_log.h"
#include "verbs/control/control_commands.h"
#include "verbs/control/cq.h"
#include "verbs/control/device.h"
#include "verbs/control/pd.h"
#include "verbs/control/qp.h"
#include "verbs/control/testing/loop_device.h"

namespace urnic::control {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class InputLogsTest : public LoopDeviceTest {
 protected:
  ~InputLogsTest() override { unsetenv("URNIC_INPUTS"); }

  void Open() {
    device_ = OpenDevice();
    pd_ = *Pd::Create(*device_);
    cq_ = *Cq::Create(*device_, {.entries = 64});
  }
  std::shared_ptr<Qp> MakeQp(QpService service = QpService::kRc) {
    QpRequest request;
    request.service = service;
    request.send_cq = request.recv_cq = cq_.get();
    request.pd = pd_.get();
    request.caps = {.max_send_wr = 4, .max_recv_wr = 4};
    return *Qp::Create(*device_, request);
  }
  std::string Ask(const std::string& request) {
    std::string answer;
    AnswerControl(device_->open_nic(), request, [&](std::string_view part) {
      answer += part;
      return true;
    });
    return answer;
  }
  // The numbers that `show inputs` lists, those of destroyed ones negative.
  std::vector<int64_t> Listed() {
    std::vector<int64_t> numbers;
    std::string lines = Ask("show inputs").substr(3);
    while (!lines.empty()) {
      const size_t end = lines.find('\n');
      const auto facts = ParseFacts(lines.substr(0, end));
      lines.erase(0, end + 1);
      const int64_t number = std::stoll(*facts->Find("lqpn"));
      numbers.push_back(*facts->Find("queue-pair") == "lives" ? number
                                                              : -number);
    }
    return numbers;
  }
  // The queue pair numbers of the logs in a recording.
  std::vector<uint32_t> Recorded() {
    const std::string answer = Ask("inputs").substr(3);
    std::span<const uint8_t> rest(
        reinterpret_cast<const uint8_t*>(answer.data()), answer.size());
    std::vector<uint32_t> numbers;
    while (!rest.empty()) {
      const auto log = TakeInputLog(rest);
      if (!log.ok()) {
        ADD_FAILURE() << log.status();
        break;
      }
      EXPECT_EQ(log->segments.size(), 1u);
      numbers.push_back(log->qpn);
    }
    return numbers;
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Pd> pd_;
  std::unique_ptr<Cq> cq_;
};

TEST_F(InputLogsTest, TheWordsOfTheVariable) {
  InputOptions options;
  std::string mistake;
  EXPECT_TRUE(ParseInputOptions("qps:4,kib:1024", options, mistake));
  EXPECT_EQ(options.qps, 4u);
  EXPECT_EQ(options.kib, 1024u);
  EXPECT_TRUE(ParseInputOptions("", options, mistake));
  EXPECT_EQ(options.qps, 0u);
  for (const std::string words :
       {"4", "qps:", "qps:65", "qps:-1", "kib:63", "kib:262145", "kib:x",
        "qps:4;kib:64", "qps:4,all"}) {
    options.qps = 7;
    EXPECT_FALSE(ParseInputOptions(words, options, mistake)) << words;
    EXPECT_THAT(mistake, HasSubstr("the words are"));
    EXPECT_EQ(options.qps, 7u) << words;
  }
}

TEST_F(InputLogsTest, AUserStartsAndStops) {
  Open();
  const auto qp = MakeQp();
  const auto other = MakeQp();
  EXPECT_THAT(Listed(), IsEmpty());
  const std::string number = absl::StrCat(qp->qpn());
  EXPECT_EQ(Ask("inputs start " + number + " 64"), "ok\n");
  EXPECT_EQ(Ask(absl::StrCat("inputs start ", other->qpn(), " 128")), "ok\n");
  EXPECT_EQ(Listed(), (std::vector<int64_t>{qp->qpn(), other->qpn()}));
  EXPECT_EQ(Recorded(), (std::vector<uint32_t>{qp->qpn(), other->qpn()}));
  // A second start begins a new log.
  EXPECT_EQ(Ask("inputs start " + number + " 64"), "ok\n");
  EXPECT_EQ(Listed(), (std::vector<int64_t>{other->qpn(), qp->qpn()}));
  EXPECT_EQ(Ask("inputs stop " + number), "ok\n");
  EXPECT_THAT(Ask("inputs stop " + number), HasSubstr("are not logged"));
  EXPECT_EQ(Listed(), (std::vector<int64_t>{other->qpn()}));
}

TEST_F(InputLogsTest, WhatCannotBeLoggedIsRefused) {
  Open();
  const auto ud = MakeQp(QpService::kUd);
  EXPECT_THAT(Ask(absl::StrCat("inputs start ", ud->qpn(), " 64")),
              HasSubstr("only the inputs of RC and of iWARP are logged"));
  const auto rc = MakeQp();
  for (const std::string request :
       {"inputs start", "inputs start 17", "inputs start x 64",
        "inputs start 17 63", "inputs start 17 262145", "inputs stop",
        "inputs stop 17 64", "inputs log 17", "inputs ", "inputs start 1 64"}) {
    EXPECT_THAT(Ask(request), StartsWith("error\n")) << request;
  }
  EXPECT_THAT(Listed(), IsEmpty());
  EXPECT_THAT(Recorded(), IsEmpty());
}

TEST_F(InputLogsTest, AMistakeIsToldWithWhatIsUsedInstead) {
  setenv("URNIC_INPUTS", "qp:2", 1);
  ::testing::internal::CaptureStderr();
  Open();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("URNIC_INPUTS: \"qp:2\" is unknown"),
                    HasSubstr("; no inputs are logged\n")));
}

TEST_F(InputLogsTest, TheFirstOnesFromTheirCreationOn) {
  setenv("URNIC_INPUTS", "qps:2,kib:64", 1);
  Open();
  const auto ud = MakeQp(QpService::kUd);  // is left out
  auto first = MakeQp();
  auto second = MakeQp();
  auto third = MakeQp();
  const int64_t numbers[] = {first->qpn(), second->qpn()};
  EXPECT_EQ(Listed(), (std::vector<int64_t>{numbers[0], numbers[1]}));
  first.reset();
  EXPECT_EQ(Listed(), (std::vector<int64_t>{-numbers[0], numbers[1]}));
  EXPECT_EQ(Recorded().size(), 2u);
  // Its place is needed.
  const auto fourth = MakeQp();
  EXPECT_EQ(Listed(), (std::vector<int64_t>{numbers[1], fourth->qpn()}));
  // A user may select more.
  EXPECT_EQ(Ask(absl::StrCat("inputs start ", third->qpn(), " 64")), "ok\n");
  EXPECT_EQ(Listed().size(), 3u);
}

TEST_F(InputLogsTest, ThereIsRoomForSoMany) {
  Open();
  std::vector<std::shared_ptr<Qp>> qps;
  for (uint32_t i = 0; i < InputLogs::kMost; ++i) {
    qps.push_back(MakeQp());
    EXPECT_EQ(Ask(absl::StrCat("inputs start ", qps.back()->qpn(), " 64")),
              "ok\n");
  }
  const auto late = MakeQp();
  const std::string start = absl::StrCat("inputs start ", late->qpn(), " 64");
  EXPECT_THAT(Ask(start), HasSubstr("64 queue pairs are logged already"));
  qps.pop_back();
  EXPECT_EQ(Ask(start), "ok\n");
  EXPECT_EQ(Listed().size(), InputLogs::kMost);
}

}  // namespace
}  // namespace urnic::control
