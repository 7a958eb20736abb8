#pragma once

// The owner of an object. Each object has one, for the day when a device serves
// many programs.

#include <sys/types.h>

namespace urnic::control {

struct Owner {
  pid_t pid = 0;
  char program[16] = {};  // as in /proc/PID/comm, terminated
};

// This process. Cheap after the first call; any thread.
const Owner& ThisProcess();

// The objects that exist on a device.
struct ObjectCounts {
  int pds = 0;
  int mrs = 0;
  int cqs = 0;
  int qps = 0;
  bool none() const { return (pds | mrs | cqs | qps) == 0; }
};

}  // namespace urnic::control
