#pragma once

// What `urnic show` says of this program, for tests whose main() is
// provider_main.cc.

#include <unistd.h>

#include <string>

#include "verbs/cli/rnic_process.h"

namespace urnic {

// The lines of facts about the objects of this kind on urnic0, or why there are
// none.
inline std::string Shown(const std::string& kind) {
  const auto rnic = FindOneRnic("urnic0", std::to_string(getpid()));
  if (!rnic.ok()) return std::string(rnic.status().message());
  const auto answer = AskRnic(*rnic, "show " + kind);
  return answer.ok() ? *answer : std::string(answer.status().message());
}

}  // namespace urnic
