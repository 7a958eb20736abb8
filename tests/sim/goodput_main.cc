// Prints the goodput table, or compares it with the file on the command line.
// Fails if a bound is missed, too (goodput.cc, Judge()).

#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/sim/goodput.h"

int main(int argc, char** argv) {
  const std::string table = urnic::sim::GoodputTable();
  const bool missed = table.find("MISSED") != std::string::npos;
  if (argc < 2) {
    std::fputs(table.c_str(), stdout);
    return missed ? 1 : 0;
  }
  std::ifstream file(argv[1]);
  std::stringstream golden;
  golden << file.rdbuf();
  if (golden.str() == table && !missed) return 0;
  std::printf(
      "The protocol behaves differently from %s:\n%s\nIf that is meant:"
      " bazel run //tests/sim:goodput > %s\n",
      argv[1], table.c_str(), argv[1]);
  return 1;
}
