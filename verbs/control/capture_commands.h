#pragma once

// The requests of `urnic capture` (control_protocol.h), for a port.

#include <string>

namespace urnic::control {

class OpenNic;

// `request`: the words after "capture ". Returns the whole answer. Any thread
// that does not hold the token.
std::string AnswerCapture(OpenNic& nic, const std::string& request);

}  // namespace urnic::control
