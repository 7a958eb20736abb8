#pragma once

// The owner of an object. Each object has one, because a device may serve many
// programs in the future.

#include <sys/types.h>

#include "ras/facts/facts.h"

namespace urnic::control {

struct Owner {
  pid_t pid = 0;
  char program[16] = {};  // as in /proc/PID/comm, terminated
};

// This process. Cheap after the first call; any thread.
const Owner& ThisProcess();

// Adds the facts "pid" and "comm".
void AddOwner(const Owner& owner, FactWriter& facts);

}  // namespace urnic::control
