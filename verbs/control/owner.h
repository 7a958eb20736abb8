#pragma once

// The owner of an object. Each object has one, for the day when a device serves
// many programs.

#include <sys/types.h>

#include "ras/facts/facts.h"

namespace urnic::control {

struct Owner {
  pid_t pid = 0;
  char program[16] = {};  // as in /proc/PID/comm, terminated
};

// This process. Cheap after the first call; any thread.
const Owner& ThisProcess();

// "pid" and "comm".
void AddOwner(const Owner& owner, FactWriter& facts);

}  // namespace urnic::control
