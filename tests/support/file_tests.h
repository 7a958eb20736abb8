#pragma once

// One test for each file that the command line names, for programs that run
// scripts.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace urnic::testing {

// Checks the text of the file by the assertions of gtest.
using FileCheck = void (*)(const std::string& path, const std::string& text);

class FileTest : public ::testing::Test {
 public:
  FileTest(std::string path, FileCheck check)
      : path_(std::move(path)), check_(check) {}
  void TestBody() override {
    std::ifstream file(path_);
    ASSERT_TRUE(file) << "cannot read " << path_;
    std::stringstream text;
    text << file.rdbuf();
    check_(path_, text.str());
  }

 private:
  const std::string path_;
  const FileCheck check_;
};

// For main(): returns its exit status. A test is named after its file. Without
// a file, the program fails.
inline int RunFileTests(int argc, char** argv, const char* suite,
                        FileCheck check) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string path = argv[i];
    const size_t slash = path.rfind('/') + 1;
    const std::string name = path.substr(slash, path.rfind('.') - slash);
    ::testing::RegisterTest(suite, name.c_str(), nullptr, nullptr, __FILE__,
                            __LINE__, [path, check]() -> ::testing::Test* {
                              return new FileTest(path, check);
                            });
  }
  return argc > 1 ? RUN_ALL_TESTS() : 1;
}

}  // namespace urnic::testing
