#include "verbs/control/owner.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace urnic::control {

const Owner& ThisProcess() {
  static const Owner owner = [] {
    Owner o;
    o.pid = getpid();
    std::strncpy(o.program, program_invocation_short_name,
                 sizeof(o.program) - 1);
    return o;
  }();
  return owner;
}

}  // namespace urnic::control
