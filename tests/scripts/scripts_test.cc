// Runs each packet script named on the command line as a separate test.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tests/scripts/runner.h"

namespace urnic::scripts {
namespace {

class ScriptTest : public ::testing::Test {
 public:
  explicit ScriptTest(std::string path) : path_(std::move(path)) {}
  void TestBody() override {
    std::ifstream file(path_);
    ASSERT_TRUE(file) << "cannot read " << path_;
    std::stringstream text;
    text << file.rdbuf();
    const std::string problem = Runner().Run(text.str());
    if (!problem.empty()) FAIL() << path_ << " " << problem;
  }

 private:
  const std::string path_;
};

std::string NameOf(const std::string& path) {
  const size_t slash = path.rfind('/') + 1;
  return path.substr(slash, path.rfind('.') - slash);
}

}  // namespace
}  // namespace urnic::scripts

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string path = argv[i];
    ::testing::RegisterTest("RcScript", urnic::scripts::NameOf(path).c_str(),
                            nullptr, nullptr, __FILE__, __LINE__,
                            [path]() -> ::testing::Test* {
                              return new urnic::scripts::ScriptTest(path);
                            });
  }
  return argc > 1 ? RUN_ALL_TESTS() : 1;
}
