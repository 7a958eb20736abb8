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

void AddOwner(const Owner& owner, FactWriter& facts) {
  facts.Add("pid", owner.pid);
  facts.Add("comm", owner.program);
}

}  // namespace urnic::control
