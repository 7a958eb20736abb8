#pragma once

// The requests of `urnic capture` (control_protocol.h), for a port.

#include <string>

namespace urnic::control {

class OpenNic;

// `request`: without the word "capture" and the blank behind it. Returns the
// whole answer. Any thread that does not hold the token.
std::string AnswerCapture(OpenNic& nic, const std::string& request);

}  // namespace urnic::control
