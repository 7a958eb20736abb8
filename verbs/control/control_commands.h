#pragma once

// What a device answers to `urnic`: the requests of
// verbs/control/control_protocol.h.

#include <string>
#include <string_view>

namespace urnic::control {

class Device;

// Any text has an answer. Waits for the engine's token. Any thread.
std::string AnswerControl(Device& device, std::string_view request);

}  // namespace urnic::control
