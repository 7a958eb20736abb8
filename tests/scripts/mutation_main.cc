// scripts_with_mutations [--expect-violation] SCRIPT...: runs packet scripts
// with a core that can be broken on purpose (tests/sim/mutations.bzl). They all
// have to pass. With `--expect-violation`, none; a failed check of the core
// counts as well.

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/scripts/runner.h"
#include "tests/sim/seeds.h"

int main(int argc, char** argv) {
  const bool expect_violation =
      argc > 1 && std::strcmp(argv[1], "--expect-violation") == 0;
  if (expect_violation) urnic::sim::PassOnAbort();
  int good = 0;
  int scripts = 0;
  for (int i = expect_violation ? 2 : 1; i < argc; ++i) {
    std::ifstream file(argv[i]);
    std::stringstream text;
    text << file.rdbuf();
    if (text.str().empty()) {
      std::fprintf(stderr, "scripts_with_mutations: cannot read %s\n", argv[i]);
      return 2;
    }
    const std::string problem = urnic::scripts::Runner().Run(text.str());
    std::printf(
        "%s: %s %s\n", argv[i],
        problem.empty() ? "nothing caught" : "caught:", problem.c_str());
    ++scripts;
    good += problem.empty() != expect_violation ? 1 : 0;
  }
  return scripts != 0 && good == scripts ? 0 : 1;
}
