#include <gtest/gtest.h>

#include <set>
#include <string>

#include "ras/errors/error_code.h"
#include "ras/errors/refusal.h"

namespace urnic {
namespace {

TEST(ErrorCodeTest, EachCodeIsReadByItsNameAndItsNumber) {
  for (const ErrorWords& error : AllErrors()) {
    const std::string name = ErrorName(error.code);
    EXPECT_EQ(ParseErrorCode(name), error.code);
    EXPECT_EQ(ParseErrorCode(name.substr(3)), error.code);
    EXPECT_EQ(&WordsOf(error.code), &error);
  }
  EXPECT_EQ(ParseErrorCode("urn1001"), ErrorCode::kRetriesExceeded);
}

TEST(ErrorCodeTest, OtherTextsAreNoCode) {
  for (const char* text : {"", "URN", "0", "999", "1000", "URN1001x", "10010",
                           "-1001", "99999999999", "XRN1001", "URN 1001"}) {
    EXPECT_EQ(ParseErrorCode(text), std::nullopt) << text;
  }
}

TEST(ErrorCodeTest, EachSaysWhatHappenedAndWhy) {
  std::set<std::string_view> texts;
  for (const ErrorWords& error : AllErrors()) {
    EXPECT_TRUE(error.text.ends_with(".")) << ErrorName(error.code);
    EXPECT_TRUE(error.cause.ends_with(".")) << ErrorName(error.code);
    if (error.severity != Severity::kInfo) {
      EXPECT_FALSE(error.action.empty()) << ErrorName(error.code);
    }
    EXPECT_TRUE(texts.insert(error.text).second) << error.text;
  }
}

TEST(RefusalTest, HasTheStatusOfItsCode) {
  const absl::Status status = Refusal(ErrorCode::kInUse, "pd 3: 2 objects");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "URN2004: pd 3: 2 objects");
  EXPECT_EQ(CodeOf(status), ErrorCode::kInUse);
}

TEST(RefusalTest, APrefixFollowsTheCode) {
  const absl::Status status =
      Prefixed("qp 17: ", Refusal(ErrorCode::kNoRoute, "no route"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "URN3001: qp 17: no route");
}

TEST(RefusalTest, AStatusOfOthersHasNoCode) {
  for (const char* text : {"x", "", ": x", "URN1: x", "URN2004", "2004: x"}) {
    const absl::Status status = absl::InternalError(text);
    EXPECT_EQ(CodeOf(status), std::nullopt) << text;
    EXPECT_EQ(Prefixed("y ", status).message(), std::string("y ") + text);
  }
}

}  // namespace
}  // namespace urnic
