// Runs each script named on the command line as a separate test.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tests/packetdrill/runner.h"

namespace urnic::packetdrill {
namespace {

class PktTest : public ::testing::Test {
 public:
  explicit PktTest(std::string path) : path_(std::move(path)) {}
  void TestBody() override {
    std::ifstream file(path_);
    ASSERT_TRUE(file) << "cannot read " << path_;
    std::stringstream text;
    text << file.rdbuf();
    const Report report = Runner().Run(text.str());
    EXPECT_TRUE(report.outcome.ok())
        << path_ << ":" << report.outcome.line << ": "
        << kResultNames[static_cast<int>(report.outcome.result)] << ": "
        << report.outcome.text;
    // Our own scripts only assert what exists here.
    EXPECT_TRUE(report.skipped.empty())
        << path_ << ": " << *report.skipped.begin();
  }

 private:
  const std::string path_;
};

std::string NameOf(const std::string& path) {
  const size_t slash = path.rfind('/') + 1;
  return path.substr(slash, path.rfind('.') - slash);
}

}  // namespace
}  // namespace urnic::packetdrill

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string path = argv[i];
    ::testing::RegisterTest(
        "TcpScript", urnic::packetdrill::NameOf(path).c_str(), nullptr, nullptr,
        __FILE__, __LINE__, [path]() -> ::testing::Test* {
          return new urnic::packetdrill::PktTest(path);
        });
  }
  return argc > 1 ? RUN_ALL_TESTS() : 1;
}
