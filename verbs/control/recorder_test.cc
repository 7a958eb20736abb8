// The files of the flight recorder of a loopback device.

#include "verbs/control/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "datapath/engine/engine.h"
#include "ras/errors/refusal.h"
#include "ras/facts/facts.h"
#include "ras/recorder/recording.h"
#include "verbs/control/control_commands.h"
#include "verbs/control/cq.h"
#include "verbs/control/device.h"
#include "verbs/control/mr.h"
#include "verbs/control/open_nic.h"
#include "verbs/control/pd.h"
#include "verbs/control/qp.h"
#include "verbs/control/srq.h"
#include "verbs/control/testing/loop_device.h"

namespace urnic::control {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class RecorderTest : public LoopDeviceTest {
 protected:
  RecorderTest() {
    std::filesystem::create_directory(directory_);
    Choose("dir:" + directory_);
  }
  ~RecorderTest() override {
    unsetenv("URNIC_RECORDER");
    std::filesystem::remove_all(directory_);
  }

  static void Choose(const std::string& words) {
    setenv("URNIC_RECORDER", words.c_str(), 1);
  }
  std::shared_ptr<Device> Open() const { return OpenDevice(); }
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory_))
      files.push_back(entry.path().string());
    return files;
  }
  // The answer of the only file, once it holds that text.
  std::string Await(const std::string& request, const std::string& text) const {
    std::string last;
    for (int i = 0; i != 1000; ++i, usleep(10'000)) {
      const auto files = Files();
      if (files.size() != 1) continue;
      const auto recording = ReadRecording(files.front());
      if (!recording.ok()) continue;
      const Recording::Answer* const answer = recording->Find(request);
      last = answer == nullptr ? "not recorded" : answer->text;
      if (last.find(text) != std::string::npos) break;
    }
    return last;
  }

  const std::string directory_ =
      ::testing::TempDir() + "/recorder_test." + std::to_string(getpid());
};

std::shared_ptr<Qp> MakeQp(Device& device, Pd& pd, Cq& cq, Srq* srq = nullptr) {
  QpRequest request;
  request.srq = srq;
  request.send_cq = request.recv_cq = &cq;
  request.pd = &pd;
  request.caps = {.max_send_wr = 4, .max_recv_wr = 4};
  return *Qp::Create(device, request);
}

TEST_F(RecorderTest, WhatExistsIsRecorded) {
  const auto device = Open();
  const auto pd = *Pd::Create(*device);
  const auto cq = *Cq::Create(*device, {.entries = 10});
  const auto qp = MakeQp(*device, *pd, *cq);
  const std::string lqpn = "lqpn=" + std::to_string(qp->qpn());
  EXPECT_THAT(Await("show qp", lqpn), HasSubstr(lqpn));
  EXPECT_THAT(Await("show dev", "dev:urnic0"), HasSubstr("dev:urnic0"));
  EXPECT_THAT(Await("show cq", "cqe="), HasSubstr("cqe="));
  EXPECT_NE(Await("state", ""), "");
  const auto recording = ReadRecording(Files().front());
  EXPECT_EQ(recording->pid, static_cast<uint32_t>(getpid()));
  EXPECT_EQ(recording->port, "urnic0");
}

TEST_F(RecorderTest, AFailureIsRecordedWithTheStateOfThatMoment) {
  const auto device = Open();
  const auto pd = *Pd::Create(*device);
  const auto cq = *Cq::Create(*device, {.entries = 10});
  const auto srq = *Srq::Create(*pd, {.max_wr = 4, .max_sge = 1});
  uint32_t qpn = 0;
  {
    const auto qp = MakeQp(*device, *pd, *cq, srq.get());
    qpn = qp->qpn();
    Engine::ControlScope scope(device->engine());
    device->engine().failures().Add(
        FailureOf(ErrorCode::kRetriesExceeded, qp->engine_qp()));
  }
  // It does not exist any more.
  const std::string failed = "failed-lqpn=" + std::to_string(qpn);
  const std::string lines = Await("show snapshot", failed);
  std::vector<std::string> objects;
  for (size_t at = 0; at != lines.size();) {
    const size_t end = lines.find('\n', at);
    const auto facts = ParseFacts(lines.substr(at, end - at));
    ASSERT_TRUE(facts.has_value()) << lines;
    EXPECT_EQ(*facts->Find("code"), "URN1001");
    EXPECT_EQ(*facts->Find("failed-lqpn"), std::to_string(qpn));
    objects.push_back(*facts->Find("object"));
    at = end + 1;
  }
  EXPECT_EQ(objects,
            (std::vector<std::string>{"qp", "cq", "srq", "pd", "image"}));
  EXPECT_THAT(lines, HasSubstr("state:RESET"));
  EXPECT_THAT(Await("show error", "URN1001"), HasSubstr("URN1001"));
}

// A thousand connections fail together.
TEST_F(RecorderTest, TheStatesOfTheFirstFailuresOfASecondAreKept) {
  const auto device = Open();
  const auto pd = *Pd::Create(*device);
  const auto cq = *Cq::Create(*device, {.entries = 10});
  const auto qp = MakeQp(*device, *pd, *cq);
  Engine::ControlScope scope(device->engine());
  Failures& failures = device->engine().failures();
  for (int i = 0; i != 200; ++i)
    failures.Add(FailureOf(ErrorCode::kRetriesExceeded, qp->engine_qp()));
  uint32_t kept = 0;
  failures.Visit(0, 200, [&](const Failure& failure) {
    kept += failure.state.empty() ? 0 : 1;
    EXPECT_EQ(failure.qp, nullptr);
  });
  EXPECT_EQ(kept, Failures::kStatesPerSecond);
}

TEST_F(RecorderTest, TheFileGoesWithThePort) {
  {
    const auto device = Open();
    EXPECT_THAT(Await("show dev", "urnic0"), HasSubstr("urnic0"));
    struct stat info = {};
    ASSERT_EQ(stat(Files().front().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0600u);
  }
  EXPECT_TRUE(Files().empty());
}

// The last recording says more than one of an empty port would.
TEST_F(RecorderTest, TheFileIsKeptIfThatIsWanted) {
  Choose("keep,dir:" + directory_);
  {
    const auto device = Open();
    const auto pd = *Pd::Create(*device);
    EXPECT_THAT(Await("show pd", "pdn="), HasSubstr("pdn="));
  }
  EXPECT_THAT(Await("show pd", "pdn="), HasSubstr("pdn="));
}

TEST_F(RecorderTest, WhatFailsLastIsInTheFileThatIsKept) {
  Choose("keep,dir:" + directory_);
  {
    const auto device = Open();
    EXPECT_THAT(Await("show dev", "urnic0"), HasSubstr("urnic0"));
    device->NoteRefusal(Refusal(ErrorCode::kNoPlace, "too many"));
  }
  EXPECT_THAT(Await("show error", "too many"), HasSubstr("too many"));
}

void Fail(Device& device, ErrorCode code) {
  const auto pd = *Pd::Create(device);
  const auto cq = *Cq::Create(device, {.entries = 10});
  const auto qp = MakeQp(device, *pd, *cq);
  Engine::ControlScope scope(device.engine());
  device.engine().failures().Add(FailureOf(code, qp->engine_qp()));
}

TEST_F(RecorderTest, TheFileIsKeptIfSomethingFailed) {
  {
    const auto device = Open();
    EXPECT_THAT(Await("show dev", "urnic0"), HasSubstr("urnic0"));
    device->NoteRefusal(Refusal(ErrorCode::kNoPlace, "too many"));
    Fail(*device, ErrorCode::kFlushed);
  }
  EXPECT_TRUE(Files().empty()) << "nothing of that is the end of something";
  {
    const auto device = Open();
    Fail(*device, ErrorCode::kRetriesExceeded);
  }
  EXPECT_THAT(Await("show error", "URN1001"), HasSubstr("URN1001"));
}

TEST_F(RecorderTest, ExitRecordsWhatJustFailed) {
  const auto device = Open();
  EXPECT_THAT(Await("show dev", "urnic0"), HasSubstr("urnic0"));
  Fail(*device, ErrorCode::kRetriesExceeded);
  OpenNic::ReportAll();  // as exit() does
  const auto recording = ReadRecording(Files().at(0));
  ASSERT_TRUE(recording.ok()) << recording.status();
  EXPECT_THAT(recording->Find("show error")->text, HasSubstr("URN1001"));
  EXPECT_THAT(recording->Find("show snapshot")->text, HasSubstr("object:qp"));
}

TEST_F(RecorderTest, OffWritesNothing) {
  Choose("off");
  const auto device = Open();
  EXPECT_TRUE(Files().empty());
}

TEST_F(RecorderTest, ADirectoryThatDoesNotExistDisturbsNothing) {
  Choose("dir:" + directory_ + "/gone");
  EXPECT_NE(Open(), nullptr);
  EXPECT_TRUE(Files().empty());
}

// Of the files of ended programs, 16 stay. Files with other names are never
// removed.
TEST_F(RecorderTest, OldFilesAreRemoved) {
  for (int i = 0; i != 20; ++i) {
    const std::string number = std::to_string(i);
    std::ofstream(directory_ + "/urnic0-" + number + "-1.rec") << "x";
    std::ofstream(directory_ + "/song-" + number + ".rec") << "not ours";
  }
  const auto device = Open();
  EXPECT_EQ(Files().size(), 16u + 20u + 1u);
}

TEST_F(RecorderTest, ADumpHasEverythingButKeys) {
  const auto device = Open();
  const auto pd = *Pd::Create(*device);
  const auto cq = *Cq::Create(*device, {.entries = 10});
  const auto qp = MakeQp(*device, *pd, *cq);
  char memory[100];
  const auto mr =
      *Mr::Register(*pd, {.address = reinterpret_cast<uintptr_t>(memory),
                          .bytes = sizeof(memory),
                          .iova = 0,
                          .access = 0});
  std::string dump;
  AnswerControl(device->open_nic(), "dump 1000", [&](std::string_view part) {
    dump += part;
    return true;
  });
  ASSERT_TRUE(dump.starts_with("ok\n"));
  const auto read = ParseRecording(std::string_view(dump).substr(3));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->Find("show qp")->text,
              HasSubstr("lqpn=" + std::to_string(qp->qpn())));
  EXPECT_THAT(read->Find("show mr")->text, HasSubstr("\trkey:masked"));
  EXPECT_THAT(read->Find("show mr")->text, HasSubstr("\tlkey:masked"));
  EXPECT_THAT(read->Find("show mr")->text, HasSubstr("\tmrn:masked"));
  EXPECT_THAT(read->Find("dump")->text, HasSubstr("of-one-moment:yes"));
  // Its images have keys.
  EXPECT_EQ(read->Find("state"), nullptr);
  // The engine goes on.
  const uint64_t before = device->engine().counters().iterations;
  // Another thread may have the token at this moment.
  while (!device->engine().Progress()) std::this_thread::yield();
  EXPECT_GT(device->engine().counters().iterations, before);
}

TEST_F(RecorderTest, TheEngineDoesNotStandStillForLongerThanWanted) {
  const auto device = Open();
  std::string dump;
  AnswerControl(device->open_nic(), "dump 0", [&](std::string_view part) {
    dump += part;
    return true;
  });
  const auto read = ParseRecording(std::string_view(dump).substr(3));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->Find("dump")->text, HasSubstr("of-one-moment:no"));
  // The recording is complete all the same.
  EXPECT_NE(read->Find("show mr"), nullptr);
}

TEST_F(RecorderTest, AMistakeIsToldWithWhatIsUsedInstead) {
  Choose("kep");
  ::testing::internal::CaptureStderr();
  const auto device = Open();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("URNIC_RECORDER: \"kep\" is unknown"),
                    HasSubstr("; the defaults are used\n")));
}

TEST(RecorderOptionsTest, WordsAreRead) {
  RecorderOptions options;
  std::string mistake;
  EXPECT_TRUE(
      ParseRecorderOptions("keep,dir:/var/crash,size:16M", options, mistake));
  EXPECT_TRUE(options.keep);
  EXPECT_FALSE(options.off);
  EXPECT_EQ(options.directory, "/var/crash");
  EXPECT_EQ(options.bytes, size_t{16} << 20);
}

TEST(RecorderOptionsTest, AMistakeIsNamedAndChangesNothing) {
  for (const char* const text :
       {"of", "dir:", "dir:here", "size:", "size:0M", "size:16", "size:1025M",
        "size:99999999999M", "off,on"}) {
    RecorderOptions options;
    std::string mistake;
    EXPECT_FALSE(ParseRecorderOptions(text, options, mistake)) << text;
    EXPECT_THAT(mistake, HasSubstr("\" is unknown; the words are off, keep"));
    EXPECT_FALSE(options.off);
  }
}

}  // namespace
}  // namespace urnic::control
