// Built together with a part that was broken on purpose (mutants.bzl), and with
// its unit test: passes if the test fails, or a check of the part does.

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/sim/seeds.h"

int main(int argc, char** argv) {
  // The report of the unit test would list its failures, which are what is
  // wanted here, as this test's own.
  GTEST_FLAG_SET(output, "");
  ::testing::InitGoogleTest(&argc, argv);
  urnic::sim::PassOnAbort();
  const bool caught = RUN_ALL_TESTS() != 0;
  std::printf("%s\n", caught ? "caught" : "NOT CAUGHT");
  return caught ? 0 : 1;
}
