// congestion [--all] [--only=TEXT] [--seed=N] [FILE]: prints the table of
// congestion (congestion.h). Without --all, only the quick rows. --only: the
// rows whose names contain the text. FILE: compares the table with it instead.

#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/sim/congestion.h"

namespace urnic::sim {
namespace {

struct Arguments {
  bool all = false;
  std::string only;
  uint64_t seed = 1;
  std::string file;
};

bool Parse(int argc, char** argv, Arguments& out) {
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (text == "--all") {
      out.all = true;
    } else if (text.starts_with("--only=")) {
      out.only = text.substr(std::strlen("--only="));
      out.all = true;
    } else if (std::sscanf(argv[i], "--seed=%" SCNu64, &out.seed) == 1) {
      continue;
    } else if (text.starts_with("-") || !out.file.empty()) {
      return false;
    } else {
      out.file = text;
    }
  }
  return true;
}

std::string Table(const Arguments& arguments) {
  const CrowdBuffers buffers;
  std::string table;
  const auto show = [&](const std::string& text) {
    table += text;
    // A row may take minutes.
    if (arguments.file.empty()) std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  };
  show(CongestionHead());
  for (const CongestionRow& row : CongestionRows()) {
    if (!row.quick && !arguments.all) continue;
    if (row.name.find(arguments.only) == std::string::npos) continue;
    show(row.run(buffers, arguments.seed) + "\n");
  }
  return table;
}

int Compare(const std::string& table, const std::string& path) {
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  if (golden.str() == table) return 0;
  std::printf(
      "The protocol behaves differently from %s:\n%s\nIf that is meant:"
      " bazel run //tests/sim:congestion > %s\n",
      path.c_str(), table.c_str(), path.c_str());
  return 1;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, arguments)) {
    std::fputs("usage: congestion [--all] [--only=TEXT] [--seed=N] [FILE]\n",
               stderr);
    return 2;
  }
  try {
    const std::string table = Table(arguments);
    return arguments.file.empty() ? 0 : Compare(table, arguments.file);
  } catch (const Violation& violation) {
    std::printf("%s\n", violation.what.c_str());
    std::fflush(stdout);
    // The rest of a failed run cannot be destroyed.
    _exit(1);
  }
}

}  // namespace
}  // namespace urnic::sim

int main(int argc, char** argv) { return urnic::sim::Main(argc, argv); }
