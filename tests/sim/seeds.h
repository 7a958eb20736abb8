#pragma once

// What the simulators' programs share: their arguments, and the meaning of a
// failed check in code that was broken on purpose.

#include <unistd.h>

#include <cinttypes>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace urnic::sim {

struct Seeds {
  uint64_t first = 1;
  uint64_t last = 0;
  // The code was broken on purpose (mutations.bzl): the exit status is
  // inverted.
  bool expect_violation = false;
};

// False: the arguments are wrong, and the usage of `program` has been printed.
inline bool ParseSeeds(const char* program, int argc, char** argv,
                       Seeds& seeds) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--expect-violation") == 0) {
      seeds.expect_violation = true;
    } else if (std::sscanf(argv[i], "--seeds=%" SCNu64 "..%" SCNu64,
                           &seeds.first, &seeds.last) != 2) {
      std::fprintf(stderr, "usage: %s [--seeds=A..B] [--expect-violation]\n",
                   program);
      return false;
    }
  }
  return true;
}

// From now on, a failed check of the simulated code has caught the fault.
inline void PassOnAbort() {
  std::signal(SIGABRT, [](int) {
    static constexpr char kText[] = "caught: a check of the code failed\n";
    if (write(STDOUT_FILENO, kText, sizeof(kText) - 1) < 0) _exit(1);
    _exit(0);
  });
}

}  // namespace urnic::sim
