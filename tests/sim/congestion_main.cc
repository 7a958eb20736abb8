// congestion [--all] [--only=TEXT] [--seeds=A..B] [--may-miss=N]
// [--expect-miss] [FILE]: prints the table of congestion (congestion.h), once
// for each seed, and fails if more than N rows (0) miss their bounds. Without
// --all, only the quick rows. --only: the rows whose names contain the text.
// FILE: compares the table with it, too. For code that was broken on purpose
// (mutations.bzl), --expect-miss succeeds with the first row that misses its
// bounds; a Violation or a failed check counts as well.

#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/sim/congestion.h"
#include "tests/sim/seeds.h"

namespace urnic::sim {
namespace {

struct Arguments {
  bool all = false;
  std::string only;
  uint64_t first_seed = 1;
  uint64_t last_seed = 1;
  uint32_t may_miss = 0;  // so many rows
  bool expect_miss = false;
  std::string file;
};

struct Table {
  std::string text;
  uint32_t missed = 0;  // rows
};

bool Parse(int argc, char** argv, Arguments& out) {
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (text == "--all") {
      out.all = true;
    } else if (text.starts_with("--only=")) {
      out.only = text.substr(std::strlen("--only="));
      out.all = true;
    } else if (text == "--expect-miss") {
      out.expect_miss = true;
    } else if (std::sscanf(argv[i], "--may-miss=%" SCNu32, &out.may_miss) ==
               1) {
      continue;
    } else if (std::sscanf(argv[i], "--seeds=%" SCNu64 "..%" SCNu64,
                           &out.first_seed, &out.last_seed) == 2) {
      continue;
    } else if (text.starts_with("-") || !out.file.empty()) {
      return false;
    } else {
      out.file = text;
    }
  }
  return true;
}

// Up to the first row that misses its bounds, if that is expected.
Table Run(const Arguments& arguments) {
  const CrowdBuffers buffers;
  Table table;
  const auto add = [&](const std::string& text, bool show) {
    table.text += text;
    // A row may take minutes.
    if (show) std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  };
  const bool show = arguments.file.empty();
  add(CongestionHead(), show);
  for (uint64_t seed = arguments.first_seed; seed <= arguments.last_seed;
       ++seed) {
    if (seed != 1) add("seed " + std::to_string(seed) + "\n", show);
    for (const CongestionRow& row : CongestionRows()) {
      if (!row.quick && !arguments.all) continue;
      if (row.name.find(arguments.only) == std::string::npos) continue;
      const CongestionResult result = row.run(buffers, seed);
      add(result.line + "\n", show || result.missed);
      table.missed += result.missed ? 1 : 0;
      if (table.missed != 0 && arguments.expect_miss) return table;
    }
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
    std::fputs(
        "usage: congestion [--all] [--only=TEXT] [--seeds=A..B]"
        " [--may-miss=N] [--expect-miss] [FILE]\n",
        stderr);
    return 2;
  }
  if (arguments.expect_miss) PassOnAbort();
  try {
    const Table table = Run(arguments);
    if (arguments.expect_miss) return table.missed != 0 ? 0 : 1;
    const int status =
        arguments.file.empty() ? 0 : Compare(table.text, arguments.file);
    if (table.missed > arguments.may_miss) {
      std::printf("%u rows missed, %u may\n", table.missed, arguments.may_miss);
      return 1;
    }
    return status;
  } catch (const Violation& violation) {
    std::printf("%s\n", violation.what.c_str());
    std::fflush(stdout);
    // The rest of a failed run cannot be destroyed.
    _exit(arguments.expect_miss ? 0 : 1);
  }
}

}  // namespace
}  // namespace urnic::sim

int main(int argc, char** argv) { return urnic::sim::Main(argc, argv); }
