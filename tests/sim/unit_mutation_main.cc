// unit_with_mutations [--expect-violation]: unit tests, linked with parts that
// can be broken on purpose (mutations.bzl). `--expect-violation` inverts the
// exit status; a failed check of a part counts as well.

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/sim/seeds.h"

int main(int argc, char** argv) {
  // The report of the unit test would list its failures, which are what is
  // wanted here, as this test's own.
  GTEST_FLAG_SET(output, "");
  ::testing::InitGoogleTest(&argc, argv);
  urnic::sim::Seeds none;
  if (!urnic::sim::ParseSeeds("unit_with_mutations", argc, argv, none)) {
    return 2;
  }
  if (none.expect_violation) urnic::sim::PassOnAbort();
  const bool caught = RUN_ALL_TESTS() != 0;
  const int ran = ::testing::UnitTest::GetInstance()->test_to_run_count();
  std::printf("%s by %d tests\n", caught ? "caught" : "nothing caught", ran);
  return ran != 0 && caught == none.expect_violation ? 0 : 1;
}
