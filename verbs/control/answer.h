#pragma once

// Answers to requests over the control socket (control_protocol.h).

#include <string>
#include <string_view>

namespace urnic::control {

// The answer to a request that is refused. `why` is for people.
inline std::string RefusedAnswer(std::string_view why) {
  std::string answer = "error\n";
  answer += why;
  return answer += '\n';
}

}  // namespace urnic::control
