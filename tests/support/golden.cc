#include "tests/support/golden.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace urnic::testing {
namespace {

// "line 3: expected ..., is ...".
std::string FirstDifference(const std::string& expected,
                            const std::string& actual) {
  std::istringstream a(expected), b(actual);
  std::string line_a, line_b;
  for (int n = 1;; ++n) {
    const bool more_a = static_cast<bool>(std::getline(a, line_a));
    const bool more_b = static_cast<bool>(std::getline(b, line_b));
    if (!more_a && !more_b) return "only in the last line's end";
    if (more_a == more_b && line_a == line_b) continue;
    return "line " + std::to_string(n) +
           "\n  expected: " + (more_a ? line_a : "(nothing)") +
           "\n  is:       " + (more_b ? line_b : "(nothing)");
  }
}

}  // namespace

void ExpectGolden(const std::string& path, const std::string& actual) {
  const char* update = std::getenv("URNIC_UPDATE_GOLDENS");
  if (update != nullptr) {
    std::ofstream file(std::string(update) + "/" + path, std::ios::binary);
    file << actual;
    file.flush();
    EXPECT_TRUE(file.good()) << path << " cannot be written";
    return;
  }
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file.is_open()) << path << " cannot be read";
  const std::string expected{std::istreambuf_iterator<char>(file), {}};
  if (expected != actual) {
    ADD_FAILURE() << path << " differs in "
                  << FirstDifference(expected, actual);
  }
}

}  // namespace urnic::testing
