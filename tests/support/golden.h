#pragma once

// Checked-in text that a test's output must equal.

#include <string>

namespace urnic::testing {

// Compares `actual` with the file at `path` (from the workspace's root). A
// difference fails the test, and the message shows the first line that differs.
// To accept the new output, run the test with
//
//   bazel test --test_env=URNIC_UPDATE_GOLDENS=$PWD --nocache_test_results
//     --strategy=TestRunner=local //the:test
//
// which writes the file below that directory. Then read the diff.
void ExpectGolden(const std::string& path, const std::string& actual);

}  // namespace urnic::testing
