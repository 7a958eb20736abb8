// Runs packetdrill scripts and prints a line for each, with tabs between:
// the path, the result, the line of the script, what differs or is missing, and
// what the assertions that were skipped need. run_packetdrill.py reads it.

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/packetdrill/runner.h"

int main(int argc, char** argv) {
  using urnic::packetdrill::kResultNames;
  using urnic::packetdrill::Report;
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i]);
    if (!file) {
      std::fprintf(stderr, "packetdrill: cannot read %s\n", argv[i]);
      return 1;
    }
    std::stringstream text;
    text << file.rdbuf();
    const Report report = urnic::packetdrill::Runner().Run(text.str());
    std::string skipped;
    for (const std::string& what : report.skipped) {
      skipped += (skipped.empty() ? "" : ", ") + what;
    }
    std::printf("%s\t%s\t%d\t%s\t%s\n", argv[i],
                kResultNames[static_cast<int>(report.outcome.result)],
                report.outcome.line, report.outcome.text.c_str(),
                skipped.c_str());
  }
  return 0;
}
