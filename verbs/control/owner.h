#pragma once

// The owner of an object. Each object carries one from the start, for `urnic
// show` and for the day when a device serves many programs.

#include <sys/types.h>

namespace urnic::control {

struct Owner {
  pid_t pid = 0;
  char program[16] = {};  // as in /proc/PID/comm, terminated
};

// This process. Cheap after the first call; any thread.
const Owner& ThisProcess();

// What is alive on a device.
struct ObjectCounts {
  int pds = 0;
  int mrs = 0;
  int cqs = 0;
  int qps = 0;
  bool none() const { return (pds | mrs | cqs | qps) == 0; }
};

}  // namespace urnic::control
