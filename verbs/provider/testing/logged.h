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
// `use(device)`. If that leaves something that cannot be closed, the port stays
// open, and its log is written a little later: `last` is then a text of the
// last line.
inline std::vector<std::string> LogOf(
    const std::function<void(OpenDevice&)>& use, const std::string& last = "") {
  const std::string path = ::testing::TempDir() + "/logged_lines";
  setenv("URNIC_LOG", ("json:" + path).c_str(), 1);
  {
    OpenDevice device;
    use(device);
  }
  unsetenv("URNIC_LOG");
  const auto read = [&](std::vector<std::string>& lines) {
    lines.clear();
    std::ifstream in(path);
    bool found = last.empty();
    for (std::string line; std::getline(in, line);) {
      // What other tests that were killed have left is not this program's.
      if (line.find("URN1918") != std::string::npos) continue;
      found |= line.find(last) != std::string::npos;
      lines.push_back(line);
    }
    return found;
  };
  std::vector<std::string> lines;
  for (int i = 0; !read(lines) && i < 1000; ++i) usleep(10'000);
  unlink(path.c_str());
  return lines;
}

}  // namespace urnic
