// Runs each packet script named on the command line as a separate test.

#include <gtest/gtest.h>

#include <string>

#include "tests/scripts/runner.h"
#include "tests/support/file_tests.h"

namespace urnic::scripts {
namespace {

void Check(const std::string& path, const std::string& text) {
  const std::string problem = Runner().Run(text);
  if (!problem.empty()) FAIL() << path << " " << problem;
}

}  // namespace
}  // namespace urnic::scripts

int main(int argc, char** argv) {
  return urnic::testing::RunFileTests(argc, argv, "RcScript",
                                      urnic::scripts::Check);
}
