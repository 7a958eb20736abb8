// Built together with a core that was broken on purpose
// (tests/sim/mutants.bzl): passes if the packet script that the command line
// names finds the fault, or a check of the core does.

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/scripts/runner.h"

namespace {

void OnSignal(int) {
  static constexpr char kText[] = "caught: a check of the core failed\n";
  if (write(STDOUT_FILENO, kText, sizeof(kText) - 1) < 0) _exit(1);
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  std::ifstream file(argc == 2 ? argv[1] : "");
  std::stringstream text;
  text << file.rdbuf();
  if (text.str().empty()) {
    std::fprintf(stderr, "mutation_main: not one script to be read\n");
    return 1;
  }
  std::signal(SIGABRT, OnSignal);
  const std::string problem = urnic::scripts::Runner().Run(text.str());
  std::printf("%s: %s\n", problem.empty() ? "NOT CAUGHT" : "caught",
              problem.c_str());
  return problem.empty() ? 1 : 0;
}
