// Runs each script named on the command line as a separate test.

#include <gtest/gtest.h>

#include <string>

#include "tests/packetdrill/runner.h"
#include "tests/support/file_tests.h"

namespace urnic::packetdrill {
namespace {

void Check(const std::string& path, const std::string& text) {
  const Report report = Runner().Run(text);
  EXPECT_TRUE(report.outcome.ok())
      << path << ":" << report.outcome.line << ": "
      << kResultNames[static_cast<int>(report.outcome.result)] << ": "
      << report.outcome.text;
  // Our own scripts only assert what exists here.
  EXPECT_TRUE(report.skipped.empty())
      << path << ": " << *report.skipped.begin();
}

}  // namespace
}  // namespace urnic::packetdrill

int main(int argc, char** argv) {
  return urnic::testing::RunFileTests(argc, argv, "TcpScript",
                                      urnic::packetdrill::Check);
}
