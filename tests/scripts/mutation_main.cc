// Built together with a core that was broken on purpose
// (tests/sim/mutants.bzl): passes if the packet script that the command line
// names finds the fault, or a check of the core does.

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/scripts/runner.h"
#include "tests/sim/seeds.h"

int main(int argc, char** argv) {
  std::ifstream file(argc == 2 ? argv[1] : "");
  std::stringstream text;
  text << file.rdbuf();
  if (text.str().empty()) {
    std::fprintf(stderr, "mutation_main: not one script to be read\n");
    return 1;
  }
  urnic::sim::PassOnAbort();
  const std::string problem = urnic::scripts::Runner().Run(text.str());
  std::printf("%s: %s\n", problem.empty() ? "NOT CAUGHT" : "caught",
              problem.c_str());
  return problem.empty() ? 1 : 0;
}
