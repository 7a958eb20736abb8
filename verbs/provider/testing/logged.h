#pragma once

// What a program's error log says (URNIC_LOG), for tests whose main() is
// provider_main.cc.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {

// The lines of the log of a program that opens the device and does
// `use(device)`.
inline std::vector<std::string> LogOf(
    const std::function<void(OpenDevice&)>& use) {
  const std::string path = ::testing::TempDir() + "/logged_lines";
  setenv("URNIC_LOG", ("json:" + path).c_str(), 1);
  {
    OpenDevice device;
    use(device);
  }
  unsetenv("URNIC_LOG");
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  unlink(path.c_str());
  return lines;
}

}  // namespace urnic
