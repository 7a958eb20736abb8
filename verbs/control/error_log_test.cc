// The thread that writes errors where the user wants them.

#include "verbs/control/error_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "datapath/engine/engine.h"
#include "ras/errors/refusal.h"
#include "verbs/control/device.h"

namespace urnic::control {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ErrorLogTest : public ::testing::Test {
 protected:
  ErrorLogTest() : path_(::testing::TempDir() + "/errors") {
    setenv("URNIC_LOG", ("json:" + path_).c_str(), 1);
  }
  ~ErrorLogTest() override {
    unlink(path_.c_str());
    unsetenv("URNIC_LOG");
  }

  static std::shared_ptr<Device> Open() {
    std::vector<urnic_device_identity> identities(URNIC_MAX_DEVICES);
    char error[256];
    EXPECT_EQ(
        urnic_device_identity_parse("loop|10.9.0.1/24", 1, identities.data(),
                                    error, sizeof(error)),
        1);
    return *Device::Open(identities.front(), {});
  }
  std::vector<std::string> Lines() const {
    std::ifstream in(path_);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  const std::string path_;
};

TEST_F(ErrorLogTest, ARefusedCallIsWritten) {
  auto device = Open();
  device->NoteRefusal(Refusal(ErrorCode::kBadAttribute, "create_cq: too many"));
  // A program that repeats a refused call does not fill the log.
  device->NoteRefusal(Refusal(ErrorCode::kBadAttribute, "create_cq: too many"));
  device->open_nic().ReportAll();
  EXPECT_THAT(Lines(),
              ElementsAre(AllOf(HasSubstr("\"link\":\"urnic0/1\""),
                                HasSubstr("\"code\":\"URN2001\""),
                                HasSubstr("\"severity\":\"warning\""),
                                HasSubstr("\"why\":\"create_cq: too many\""))));
}

TEST_F(ErrorLogTest, WhatFailsLastIsWrittenAtTheEnd) {
  auto device = Open();
  for (int i = 0; i < 3; ++i) {
    device->NoteRefusal(
        Refusal(ErrorCode::kNoPlace, "call " + std::to_string(i)));
  }
  device.reset();
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 3u);
  for (int i = 0; i < 3; ++i)
    EXPECT_THAT(lines[static_cast<size_t>(i)],
                HasSubstr("\"call " + std::to_string(i)));
}

// The engine does not wait for the log.
TEST_F(ErrorLogTest, WhatCameTooFastIsCounted) {
  constexpr uint32_t kMore = 44;
  auto device = Open();
  {
    Engine::ControlScope scope(device->engine());
    for (uint32_t i = 1; i <= Failures::kEntries + kMore; ++i) {
      device->engine().failures().Add(
          {.code = ErrorCode::kCqOverflow, .cqn = i});
    }
  }
  device.reset();
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 1 + Failures::kEntries);
  EXPECT_THAT(lines[0], AllOf(HasSubstr("URN1908"),
                              HasSubstr(std::to_string(kMore) + " errors")));
  EXPECT_THAT(lines[1], HasSubstr("\"cqn\":" + std::to_string(kMore + 1)));
}

TEST_F(ErrorLogTest, AWrongPlaceIsToldOnce) {
  setenv("URNIC_LOG", "jornal,json:/dev/full", 1);
  ::testing::internal::CaptureStderr();
  auto device = Open();
  device->NoteRefusal(Refusal(ErrorCode::kNoPlace, "first"));
  device->NoteRefusal(Refusal(ErrorCode::kNoPlace, "second"));
  device.reset();
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, AllOf(HasSubstr("\"jornal\" is not a place for errors"),
                          HasSubstr("; it is left out")));
  const std::string full = "No space left on device";
  const size_t at = told.find(full);
  ASSERT_NE(at, std::string::npos) << told;
  EXPECT_THAT(told, HasSubstr("URNIC_LOG=json:/dev/full: " + full));
  EXPECT_EQ(told.find(full, at + 1), std::string::npos) << told;
}

TEST_F(ErrorLogTest, APlaceThatCannotBeOpenedIsToldAtTheStart) {
  setenv("URNIC_LOG", ("json:/no/such/file,json:" + path_).c_str(), 1);
  ::testing::internal::CaptureStderr();
  auto device = Open();
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("URNIC_LOG=json:/no/such/file: No such file or "
                              "directory; errors are lost there"));
  ::testing::internal::CaptureStderr();
  device->NoteRefusal(Refusal(ErrorCode::kNoPlace, "first"));
  device.reset();
  EXPECT_EQ(::testing::internal::GetCapturedStderr().find("URNIC_LOG"),
            std::string::npos)
      << "told once";
  EXPECT_EQ(Lines().size(), 1u);
}

}  // namespace
}  // namespace urnic::control
